// serve.mjs serves a directory on loopback: for the tests, and for looking at the site (node docs/site/serve.mjs DIR PORT).
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const types = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json" };

// serve returns a server of the files below dir, which listens on a port of 127.0.0.1 (0: a free one).
export async function serve(dir, port = 0) {
  const server = http.createServer((request, response) => {
    const name = path.normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const file = path.join(dir, name.endsWith("/") ? `${name}index.html` : name);
    fs.readFile(file, (err, content) => {
      response.writeHead(err ? 404 : 200, { "content-type": err ? "text/plain" : types[path.extname(file)] ?? "application/octet-stream" });
      response.end(err ? "no such page\n" : content);
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const server = await serve(process.argv[2] ?? "bin/site/public", Number(process.argv[3] ?? 8000));
  console.log(`http://127.0.0.1:${server.address().port}/`);
}
