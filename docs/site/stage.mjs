// stage.mjs TOP OUT prepares the Markdown pages below the directory TOP for Hugo: it writes each with its title and
// address to OUT/content, the files that they show or link to beside them, the menu to OUT/data/nav.json, and where
// each relative link leads to OUT/data/links.json. A link that leads nowhere ends it with status 1.
import fs from "node:fs";
import path from "node:path";

const [top, out] = process.argv.slice(2);
const skipped = new Set([".git", ".github", "bin", "dist", "node_modules", "testdata"]);
const failures = [];

// read returns the text of a file of the repository.
const read = (file) => fs.readFileSync(path.join(top, file), "utf8");

// pagesBelow returns the Markdown files below dir, which is relative to top, in the order of their names.
function pagesBelow(dir) {
  const found = [];
  for (const entry of fs.readdirSync(path.join(top, dir), { withFileTypes: true })) {
    const name = path.join(dir, entry.name);
    if (entry.isDirectory() && !skipped.has(entry.name)) found.push(...pagesBelow(name));
    if (entry.isFile() && name.endsWith(".md")) found.push(name);
  }
  return found.sort();
}

// address returns where the page of a file of the repository is on the site: that of README.md is its directory.
function address(file) {
  const name = file.replace(/(^|\/)README\.md$/, "$1").replace(/\.md$/, "");
  return name === "" ? "/" : `/${name.replace(/\/$/, "").toLowerCase()}/`;
}

// plain returns a line of Markdown as text: without links, emphasis and code marks.
const plain = (text) => text.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "").replace(/\s+/g, " ").trim();

// describe returns a page's title, its first paragraph as text, and its Markdown without the comments.
function describe(file) {
  const text = read(file).replace(/^<!--(?:(?!-->)[\s\S])*-->\n/gm, "");
  const heading = text.match(/^# (.+)$/m);
  if (!heading) failures.push(`${file}: no heading of the first level`);
  const rest = heading ? text.slice(heading.index + heading[0].length) : text;
  const lead = rest.split(/\n\s*\n/).find((paragraph) => /^\s*\[?[\w“"`]/.test(paragraph)) ?? "";
  return { title: plain(heading?.[1] ?? file), description: plain(lead), text };
}

// write writes a file of the site, with the directories above it.
function write(name, content) {
  const file = path.join(out, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, content);
}

// stage writes a page for Hugo, which takes its address from url and nothing from the name of the file.
let staged = 0;
function stage(file, url, page, text) {
  const front = { title: page.title, description: page.description, url, params: {}, source: file, kind: page.kind };
  const name = url === "/" ? "_index.md" : `page-${++staged}.md`;
  write(path.join("content", name), `${JSON.stringify(front, null, 1)}\n\n${text}`);
}

// shown returns the address of what a page links to that is not a page: a picture is copied, a text file and a
// directory get a page.
const others = new Map();
function shown(file) {
  if (others.has(file)) return others.get(file);
  let url;
  if (/\.(svg|png)$/.test(file)) {
    url = `/${file}`;
    write(path.join("static", file), fs.readFileSync(path.join(top, file)));
  } else if (fs.statSync(path.join(top, file)).isDirectory()) {
    url = `/${file.toLowerCase()}/`;
    const names = fs.readdirSync(path.join(top, file)).filter((name) => !skipped.has(name)).sort();
    const list = names.map((name) => `- \`${name}\``).join("\n");
    stage(file, url, { title: `${file}/`, description: `What is in ${file}.`, kind: "file" }, `# ${file}/\n\n${list}\n`);
  } else {
    url = `/${file.toLowerCase()}/`;
    const language = { ".yaml": "yaml", ".yml": "yaml", ".go": "go", ".sh": "sh", ".json": "json", ".tpl": "yaml" }[path.extname(file)] ?? "text";
    const fence = "`````";
    stage(file, url, { title: file, description: `The file ${file}.`, kind: "file" }, `# ${path.basename(file)}\n\nThe file \`${file}\` of the repository.\n\n${fence}${language}\n${read(file)}\n${fence}\n`);
  }
  others.set(file, url);
  return url;
}

// linksOf returns where each relative link of a page leads on the site.
function linksOf(file, text) {
  const links = {};
  const destinations = [...text.matchAll(/\]\(([^)\s]+)(?: "[^"]*")?\)|^\[[^\]]+\]: (\S+)|(?:href|src|srcset)="([^"]+)"/gm)].map((m) => m[1] ?? m[2] ?? m[3]);
  for (const destination of destinations) {
    if (/^(#|[a-z]+:)/.test(destination)) continue;
    const [name, anchor] = destination.split("#");
    const linked = path.normalize(path.join(path.dirname(file), decodeURIComponent(name))).replace(/\/$/, "");
    const readme = path.join(linked, "README.md");
    let url;
    if (pages.includes(linked)) url = address(linked);
    else if (pages.includes(readme)) url = address(readme);
    else if (!linked.startsWith("..") && fs.existsSync(path.join(top, linked))) url = shown(linked);
    else failures.push(`${file}: link to ${destination}: there is no ${linked}`);
    if (url) links[destination] = anchor ? `${url}#${anchor}` : url;
  }
  return links;
}

// menu returns the groups of nav.json with their pages. An entry that ends in a slash stands for all pages below that
// directory, and an empty one for all that no other entry names, so that a new page is never left out.
function menu(described) {
  const groups = JSON.parse(fs.readFileSync(path.join(top, "docs/site/nav.json"), "utf8"));
  const taken = new Set();
  const take = (chosen) => chosen.filter((file) => !taken.has(file) && taken.add(file));
  const listed = new Map();
  const entries = groups.flatMap((group) => group.pages);
  for (const order of [(e) => e.endsWith(".md"), (e) => e.endsWith("/"), (e) => e === ""]) {
    for (const entry of entries.filter(order)) {
      listed.set(entry, take(pages.filter((file) => (entry.endsWith(".md") ? file === entry : file.startsWith(entry)))));
    }
  }
  return groups.map((group) => ({
    title: group.title,
    pages: group.pages.flatMap((entry) => listed.get(entry)).map((file) => ({ title: short(described.get(file).title, file), url: address(file) })),
  })).filter((group) => group.pages.length > 0);
}

// short returns the title that a page has in the menu.
const short = (title, file) => (file === "README.md" ? "Overview" : title.replace(/^initbox (?=[a-z-]+$)/, ""));

for (const part of ["content", "data", "static", "public"]) fs.rmSync(path.join(out, part), { recursive: true, force: true });
const pages = pagesBelow("");
const described = new Map(pages.map((file) => [file, describe(file)]));
const links = {};
for (const [file, page] of described) {
  links[file] = linksOf(file, page.text);
  stage(file, address(file), page, page.text);
}
write("data/links.json", JSON.stringify(links, null, 1));
write("data/nav.json", JSON.stringify(menu(described), null, 1));
fs.mkdirSync(path.join(out, "static"), { recursive: true });
for (const failure of failures) console.error(`stage.mjs: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
