package convert

import "testing"

func TestPostgres(t *testing.T) {
	probed{
		"pg_isready -h mydb -p 5432":                          "wait-for-service postgres://mydb:5432",
		"pg_isready --host=$HOST --port $PORT -q":             "wait-for-service postgres://$(HOST):$(PORT)",
		"pg_isready -h mydb -U app -d shop -t 2":              "wait-for-service postgres://mydb",
		"pg_isready":                                          "!without a host",
		"pg_isready -h /run/postgresql":                       "!without a host",
		"pg_isready -h a,b":                                   "!not a host",
		"pg_isready -d postgres://x/y":                        "!a connection string",
		"pg_isready -h mydb -x":                               "!-x",
		"PGPASSWORD=$PW pg_isready -h mydb":                   "wait-for-service postgres://mydb",
		"PGUSER=x pg_isready -h mydb":                         "wait-for-service postgres://mydb",
		"PGOPTIONS=x pg_isready -h mydb":                      "!PGOPTIONS",
		"psql -h mydb -U app -d shop -c 'select 1'":           "wait-for-service postgres://app@mydb/shop",
		"psql -h mydb -p $PORT -U app shop -c 'SELECT 1;'":    "wait-for-service postgres://app@mydb:$(PORT)/shop",
		"PGPASSWORD=$PW psql -h mydb -U app -d shop -c '\\q'": "wait-for-service postgres://app:${env:PW}@mydb/shop",
		"PGPASSWORD=hUnter2 psql -h mydb -U app -c '\\q'":     "!a password",
		"psql -h mydb -U app -l":                              "wait-for-service postgres://app@mydb/postgres",
		"psql -h mydb -U app -lqt":                            "wait-for-service postgres://app@mydb/postgres",
		"psql -h $HOST -U $PW -d $NS -c 'select 1'":           "wait-for-service postgres://${env:PW}@$(HOST)/$(NS)",
		"psql $PW -c 'select 1'":                              "wait-for-service ${env:PW}",
		"psql -d $PW -c 'select 1'":                           "wait-for-service ${env:PW}",
		"psql $CHOST -c 'select 1'":                           "!not known",
		"psql postgres://app:hUnter2@mydb/shop -c 'select 1'": "!a connection string",
		"psql -h mydb -c 'select 1'":                          "!without a user",
		"psql -h mydb -U app -c 'select 1 from users'":        "!whose result does not",
		"psql -h mydb -U app -c 'drop table x'":               "!whose result does not",
		"psql -h mydb -U app -f x.sql":                        "!-f",
		"psql -h mydb -U app":                                 "!one -c",
		"psql -U app -c 'select 1'":                           "!without a host",
		"psql -h mydb -U app -o /shared/x -c 'select 1'":      "!a setting of psql",
	}.test(t, waitContainer())
	const psql = "psql -h mydb -U app -d shop -tAc "
	query := func(sql string) string { return `wait-for-service "postgres://app@mydb/shop#query=` + sql + `"` }
	matched{
		{psql + `"select count(*) from users"`, "-ge", "3"}:                   query("SELECT (select count(*) from users)::numeric >= 3"),
		{psql + `"select count(*) from users"`, "=", "3"}:                     query("SELECT (select count(*) from users)::text = '3'"),
		{psql + `"select 1 from pg_database where datname='shop'"`, "=", "1"}: query("SELECT (select 1 from pg_database where datname='shop')::text = '1'"),
		{psql + `"select 1 from users"`, "grep", "1"}:                         query("select 1 from users"),
		{psql + `"select exists (select 1 from users)"`, "=", "t"}:            query("select exists (select 1 from users)"),
		{psql + `"select x from users"`, "=", "t"}:                            "!= t",
		{psql + `"select x from users"`, "grep", "1"}:                         "!grep 1",
		{psql + `"select 1; drop table x"`, "=", "1"}:                         "!not a single SELECT",
		{psql + `"select 1 union select 2"`, "=", "1"}:                        "!not a single SELECT",
		{psql + `"show x"`, "=", "1"}:                                         "!not a single SELECT",
		{psql + `"select x from users"`, "!=", "1"}:                           "!!= 1",
		{`psql -h mydb -U app -c "select count(*) from users"`, "=", "3"}:     "!-A",
		{`psql $PW -tAc "select count(*) from users"`, "-gt", "0"}:            `wait-for-service "${env:PW}#query=SELECT (select count(*) from users)::numeric > 0"`,
	}.test(t)
}

func TestMySQL(t *testing.T) {
	probed{
		"mysqladmin ping -h mydb --silent":                                 "wait-for-service mysql://mydb",
		"mysqladmin -h $HOST -P 3307 -u root -p$PW ping":                   "wait-for-service mysql://$(HOST):3307",
		"mysqladmin ping -h mydb -u root -phUnter2":                        "wait-for-service mysql://mydb",
		"mysqladmin ping --protocol=tcp --host=mydb":                       "wait-for-service mysql://mydb",
		"mysqladmin ping":                                                  "!without a host",
		"mysqladmin ping -h localhost":                                     "!without a host",
		"mysqladmin shutdown -h mydb":                                      "!shutdown",
		"mysqladmin --wait=5 ping -h mydb":                                 "!-w",
		"mysqladmin -h mydb -u root -p$PW status":                          "wait-for-service mysql://root:${env:PW}@mydb",
		"mysqladmin -h mydb -u root -p status":                             "!asks for the password",
		"mysql -h mydb -u app -p$PW -e 'select 1'":                         "wait-for-service mysql://app:${env:PW}@mydb",
		"mysql -h mydb -P $PORT -u app --password=$PW shop -e 'SELECT 1;'": "wait-for-service mysql://app:${env:PW}@mydb:$(PORT)/shop",
		"MYSQL_PWD=$PW mariadb -h mydb -u app -D shop -e 'SELECT 1'":       "wait-for-service mysql://app:${env:PW}@mydb/shop",
		"mysql -h mydb -u app -phUnter2 -e 'select 1'":                     "!a password",
		"mysql -h mydb -p$PW -e 'select 1'":                                "!without a user",
		"mysql -h mydb -u app -p$PW -e 'drop table x'":                     "!whose result does not",
		"mysql -h mydb -u app -p$PW --skip-ssl -e 'select 1'":              "wait-for-service mysql://app:${env:PW}@mydb/?ssl-mode=DISABLED",
		"mysql -h mydb -u app -p$PW --ssl-mode=REQUIRED -e 'select 1'":     "!--ssl-mode",
		"mysql -h mydb -u app -p$PW":                                       "!one -e",
	}.test(t, waitContainer())
}

func TestRedis(t *testing.T) {
	probed{
		"redis-cli -h cache -a $PW ping":                               "wait-for-service redis://:${env:PW}@cache",
		"REDISCLI_AUTH=$PW redis-cli -h cache -p 6380 PING":            "wait-for-service redis://:${env:PW}@cache:6380",
		"redis-cli -h cache --user app --pass $PW -n 3 ping":           "wait-for-service redis://app:${env:PW}@cache/3",
		"redis-cli --tls --cacert /shared/ca.crt -h cache -a $PW ping": "wait-for-service rediss://:${env:PW}@cache#ca-file=/shared/ca.crt",
		"redis-cli -h cache ping":                                      "wait-for-service tcp://cache:6379",
		"redis-cli -h cache -p 6380 -n 2 PING":                         "wait-for-service tcp://cache:6380",
		"redis-cli --tls -h cache ping":                                "!NOAUTH",
		"redis-cli -h cache -a hUnter2 ping":                           "!a password",
		"redis-cli ping":                                               "!without a host",
		"redis-cli -h cache -a $PW flushall":                           "!ping alone",
		"redis-cli -h cache -a $PW --scan":                             "!--scan",
	}.test(t, waitContainer())
	matched{
		{"redis-cli -h cache ping", "=", "PONG"}:                       "wait-for-service redis://cache",
		{"redis-cli -h $HOST ping", "grep", "PONG"}:                    "wait-for-service redis://$(HOST)",
		{"redis-cli -h cache -a $PW ping", "=", "PONG"}:                "wait-for-service redis://:${env:PW}@cache",
		{"redis-cli -h cache ping", "!=", "PONG"}:                      "!!= PONG",
		{"redis-cli -h cache ping", "grep", "NOAUTH"}:                  "!grep NOAUTH",
		{"redis-cli -h cache info replication", "grep", "role:master"}: "wait-for-service redis://cache#role=master",
		{"redis-cli -h cache role", "grep", "master"}:                  "!grep master",
		{"redis-cli -h cache role", "grep", "^master"}:                 "wait-for-service redis://cache#role=master",
		{"redis-cli -h cache get x", "=", "1"}:                         "!= 1",
	}.test(t)
}
