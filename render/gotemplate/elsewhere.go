package gotemplate

import (
	"strings"
	"sync"

	"initbox/internal/lazy"
)

// qualified is a function's name at the beginning of a text, with its namespace.
var qualified = lazy.Regexp(`^[A-Za-z_]\w*(?:\.[A-Za-z]\w*)?`)

// elsewhere returns the name of an unknown function with its namespace, and what to write here if it is a function of
// gomplate or dockerize; see their documentation.
func elsewhere(text string) (name, fix string) {
	name = qualified().FindString(text)
	if here := gomplate()[name]; here != "" {
		return name, "here it is " + here
	}
	if namespace, function, found := strings.Cut(name, "."); found {
		if here := gomplate()[namespace+"."]; here != "" {
			return name, here
		}
		// Many functions have the same name without the namespace, which gomplate also has as an alias.
		if here := gomplate()[strings.ToLower(function[:1])+function[1:]]; here != "" {
			return name, "here it is " + here
		}
	}
	if dockerizeFuncs(nil)[name] != nil {
		return name, "--compat dockerize has it"
	}
	return name, ""
}

// gomplate returns, for functions of gomplate, what to write here. A name that ends in a dot is that of a whole
// namespace.
var gomplate = sync.OnceValue(func() map[string]string {
	table := map[string]string{
		"env.":      "here it is .Env, as in .Env.NAME or (.Env.NAME | default \"x\")",
		"semver.":   "here it is semver or semverCompare",
		"aws.":      "nothing here reads from a cloud: mount it as a file, and read it with --values",
		"gcp.":      "nothing here reads from a cloud: mount it as a file, and read it with --values",
		"sockaddr.": "the Pod's addresses are .Pod.IP and .Pod.IPs",
	}
	for here, names := range map[string]string{
		".Env, as in .Env.NAME or (.Env.NAME | default \"x\")": "getenv",
		".Values, with --values FILE":                          "ds datasource data.Datasource data.DS datasourceExists datasourceReachable defineDatasource",
		".Files.Get \"NAME\", with --files DIR":                "file.Read",
		".Files.Glob \"*\", with --files DIR":                  "file.ReadDir file.Walk",
		"upper":                                                "strings.ToUpper toUpper", "lower": "strings.ToLower toLower", "title": "strings.Title",
		"trim": "strings.TrimSpace trimSpace", "trimAll": "strings.Trim", "trimPrefix": "strings.TrimPrefix", "trimSuffix": "strings.TrimSuffix",
		"trimLeft": "strings.TrimLeft", "trimRight": "strings.TrimRight", "splitList": "strings.Split", "splitN": "strings.SplitN",
		"replace": "strings.ReplaceAll replaceAll", "contains": "strings.Contains", "hasPrefix": "strings.HasPrefix", "hasSuffix": "strings.HasSuffix",
		"repeat": "strings.Repeat", "indent": "strings.Indent", "quote": "strings.Quote", "squote": "strings.Squote", "shquote": "strings.ShellQuote shellQuote",
		"slug": "strings.Slug", "trunc": "strings.Trunc", "abbrev": "strings.Abbrev", "snakecase": "strings.SnakeCase", "camelcase": "strings.CamelCase",
		"kebabcase": "strings.KebabCase", "wrap": "strings.WordWrap", "sortAlpha": "strings.Sort coll.Sort sort",
		"dict": "coll.Dict", "list": "coll.Slice slice.Slice", "hasKey (of a map) or has (of a list)": "coll.Has", "keys": "coll.Keys", "values": "coll.Values",
		"append": "coll.Append", "prepend": "coll.Prepend", "uniq": "coll.Uniq", "reverse": "coll.Reverse", "merge": "coll.Merge", "pick": "coll.Pick",
		"omit": "coll.Omit", "flatten": "coll.Flatten", "jsonPath": "coll.JSONPath jsonpath", "index": "coll.Index",
		"fromJson": "data.JSON json", "fromJsonArray": "data.JSONArray jsonArray", "fromYaml": "data.YAML yaml", "fromYamlArray": "data.YAMLArray yamlArray",
		"fromToml": "data.TOML toml", "fromCsv": "data.CSV csv data.CSVByRow csvByRow", "toJson": "data.ToJSON toJSON",
		"toPrettyJson": "data.ToJSONPretty toJSONPretty", "toYaml": "data.ToYAML toYAML", "toToml": "data.ToTOML toTOML",
		"toBool": "conv.Bool conv.ToBool bool", "default": "conv.Default", "join": "conv.Join", "int64": "conv.ToInt conv.ToInt64 conv.Atoi",
		"float64": "conv.ToFloat64", "toString": "conv.ToString", "toStrings": "conv.ToStrings", "urlParse": "conv.URL",
		"add (addf for fractions)": "math.Add", "sub (subf for fractions)": "math.Sub", "mul (mulf for fractions)": "math.Mul",
		"divf (div for whole numbers)": "math.Div", "mod": "math.Rem", "pow": "math.Pow", "untilStep": "math.Seq", "ceil": "math.Ceil", "floor": "math.Floor",
		"round": "math.Round", "max": "math.Max", "min": "math.Min",
		"regexMatch": "regexp.Match", "regexFind": "regexp.Find", "regexFindAll": "regexp.FindAll", "regexReplaceAll": "regexp.Replace",
		"regexReplaceAllLiteral": "regexp.ReplaceLiteral", "regexSplit": "regexp.Split", "regexQuoteMeta": "regexp.QuoteMeta",
		"b64enc": "base64.Encode", "b64dec": "base64.Decode", "sha256sum": "crypto.SHA256", "sha1sum": "crypto.SHA1", "sha512sum": "crypto.SHA512",
		"bcrypt": "crypto.Bcrypt", "base": "path.Base filepath.Base", "dir": "path.Dir filepath.Dir", "ext": "path.Ext filepath.Ext",
		"clean": "path.Clean filepath.Clean", "isAbs": "path.IsAbs filepath.IsAbs", "list \"a\" \"b\" | join \"/\"": "path.Join filepath.Join",
		"pathMatch": "path.Match filepath.Match", "ternary": "test.Ternary", "fail": "test.Fail", "required": "test.Required", "kindOf": "test.Kind kind",
		"kindIs": "test.IsKind isKind", "if and fail": "test.Assert assert",
		"resolve, with --resolve": "net.LookupIP net.LookupIPs net.LookupHost", "resolveSRV, with --resolve": "net.LookupSRV net.LookupSRVs",
		"parsePrefix": "net.ParsePrefix net.ParseIPPrefix", "cidrHost": "net.CIDRHost net.CidrHost", "cidrNetmask": "net.CIDRNetmask net.CidrNetmask",
		"now": "time.Now", "toDate": "time.Parse", "uuidv4": "uuid.V4",
		"randAlphaNum": "random.AlphaNum", "randAlpha": "random.Alpha", "randAscii": "random.ASCII", "randInt": "random.Number", "tpl": "tmpl.Inline",
		"include": "tmpl.Exec",
	} {
		for name := range strings.FieldsSeq(names) {
			table[name] = here
		}
	}
	return table
})
