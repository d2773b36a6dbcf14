import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.FutureTask;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * Uses stores as Java programs do, whose password is in STORE_PASSWORD. Its arguments are commands, each with its own:
 *
 * connect SERVER CLIENT    TLS on loopback; both have a key store that is also their trust store, and prove who they are
 * get URL KEYS TRUST       an HTTPS request with a client certificate, or none for KEYS "-"; prints the status
 * decrypt PEM              decrypts the key of an elliptic curve
 */
class Stores {
    static final char[] password = System.getenv("STORE_PASSWORD").toCharArray();

    public static void main(String[] args) throws Exception {
        Iterator<String> words = List.of(args).iterator();
        while (words.hasNext()) {
            String command = words.next();
            switch (command) {
                case "connect" -> connect(words.next(), words.next());
                case "get" -> get(words.next(), words.next(), words.next());
                case "decrypt" -> decrypt(words.next());
                default -> throw new IllegalArgumentException(command);
            }
        }
    }

    static void connect(String serverStore, String clientStore) throws Exception {
        try (SSLServerSocket listener = (SSLServerSocket) context(serverStore, serverStore).getServerSocketFactory().createServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            listener.setNeedClientAuth(true);
            FutureTask<String> server = new FutureTask<>(() -> {
                try (SSLSocket client = (SSLSocket) listener.accept()) {
                    client.getOutputStream().write(client.getInputStream().read() + 1);
                    return client.getSession().getPeerPrincipal().getName();
                }
            });
            new Thread(server).start();
            try (Socket plain = new Socket(listener.getInetAddress(), listener.getLocalPort());
                    SSLSocket socket = (SSLSocket) context(clientStore, clientStore).getSocketFactory().createSocket(plain, "127.0.0.1", listener.getLocalPort(), true)) {
                var parameters = socket.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS"); // verifies the server's name, too
                socket.setSSLParameters(parameters);
                socket.getOutputStream().write(41);
                int answer = socket.getInputStream().read();
                System.out.printf("connect %s %s: server %s, client %s, answer %d%n", name(serverStore), name(clientStore),
                        socket.getSession().getPeerPrincipal().getName(), server.get(), answer);
            }
        }
    }

    static void get(String url, String keys, String trust) throws Exception {
        HttpsURLConnection connection = (HttpsURLConnection) URI.create(url).toURL().openConnection();
        connection.setSSLSocketFactory(context(keys, trust).getSocketFactory());
        String result;
        try {
            result = Integer.toString(connection.getResponseCode());
        } catch (SSLException e) {
            result = e.getMessage();
        }
        System.out.printf("get %s %s: %s%n", name(keys), name(trust), result);
    }

    static void decrypt(String pem) throws Exception {
        String text = Files.readString(Path.of(pem));
        text = text.replaceAll("(?s).*-----BEGIN ENCRYPTED PRIVATE KEY-----(.*)-----END ENCRYPTED PRIVATE KEY-----.*", "$1");
        EncryptedPrivateKeyInfo info = new EncryptedPrivateKeyInfo(Base64.getMimeDecoder().decode(text));
        String algorithm = info.getAlgParameters().toString(); // before Java 19, getAlgName is only PBES2
        Cipher cipher = Cipher.getInstance(algorithm);
        cipher.init(Cipher.DECRYPT_MODE, SecretKeyFactory.getInstance(algorithm).generateSecret(new PBEKeySpec(password)), info.getAlgParameters());
        System.out.printf("decrypt %s: %s%n", name(pem), KeyFactory.getInstance("EC").generatePrivate(info.getKeySpec(cipher)).getAlgorithm());
    }

    static SSLContext context(String keys, String trust) throws Exception {
        KeyManagerFactory ours = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        ours.init(keys.equals("-") ? null : load(keys), password);
        TrustManagerFactory others = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        others.init(load(trust));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(ours.getKeyManagers(), others.getTrustManagers(), null);
        return context;
    }

    static KeyStore load(String path) throws Exception {
        KeyStore store = KeyStore.getInstance(path.endsWith(".jks") ? "JKS" : "PKCS12");
        try (InputStream in = Files.newInputStream(Path.of(path))) {
            store.load(in, password);
        }
        return store;
    }

    static String name(String path) {
        return Path.of(path).getFileName().toString();
    }
}
