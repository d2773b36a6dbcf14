// index.mjs DIR writes DIR/search.json for the pages in DIR: one entry for each section, with its address, the titles
// of its page and of itself, and its text.
import fs from "node:fs";
import path from "node:path";

const dir = process.argv[2];
const entities = { amp: "&", lt: "<", gt: ">", quot: '"', "#34": '"', "#39": "'", nbsp: " " };

// text returns the text of a piece of HTML. Elements that begin a line separate words.
function text(html) {
  return html
    .replace(/<(?:button|a class="?anchor)[^>]*>.*?<\/(?:button|a)>/gs, "")
    .replace(/<\/?(?:p|div|li|tr|td|th|pre|h\d|br|ul|ol|table)\b[^>]*>/g, " ")
    .replace(/<[^>]+>/g, "")
    .replace(/&(#?\w+);/g, (whole, name) => entities[name] ?? whole)
    .replace(/\s+/g, " ")
    .trim();
}

// sections returns the entries of the page at an address.
function sections(url, html) {
  const article = html.match(/<article[^>]*>([\s\S]*)<\/article>/)?.[1];
  if (!article || /<article[^>]*data-kind=["']?file/.test(html)) return [];
  const parts = article.split(/(?=<h[1-4] id=)/);
  const page = text(parts.map((part) => part.match(/<h1[^>]*>(.*?)<\/h1>/s)?.[1]).find(Boolean) ?? url);
  return parts.flatMap((part) => {
    const [heading, level, id, title] = part.match(/^<h([1-4]) id="?([^" >]+)"?[^>]*>(.*?)<\/h\1>/s) ?? [];
    const body = text(heading ? part.slice(heading.length) : part);
    if (!heading && body === "") return [];
    return [{ url: level > 1 ? `${url}#${id}` : url, page, title: heading ? text(title) : page, text: body }];
  });
}

// walk returns the entries of all pages below a directory.
function walk(below) {
  return fs.readdirSync(path.join(dir, below), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1)).flatMap((entry) => {
    const name = path.join(below, entry.name);
    if (entry.isDirectory()) return walk(name);
    return entry.name === "index.html" ? sections(below === "" ? "" : `${below}/`, fs.readFileSync(path.join(dir, name), "utf8")) : [];
  });
}

fs.writeFileSync(path.join(dir, "search.json"), JSON.stringify(walk("")));
