// What the pages do beside being read: the search, the menu on a phone, dark or light colours, and copying of code.
// Without it, all pages can be read and all links work.
import MiniSearch from "./minisearch.js";

const one = (selector) => document.querySelector(selector);
const base = new URL(one(".brand").getAttribute("href"), location.href);

// Colours: as the system has them, until the reader chooses.
const stored = localStorage.getItem("theme");
if (stored) document.documentElement.dataset.theme = stored;
one("[data-theme-toggle]").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

// The menu stays open where there is room beside the page.
const menu = one("[data-menu]");
const wide = matchMedia("(min-width: 60rem)");
const fold = () => { menu.open = wide.matches; };
wide.addEventListener("change", fold);
fold();
menu.dataset.ready = ""; // until now the style sheet has hidden it on a phone, so that nothing moves
const current = menu.querySelector("[aria-current]");
if (current && wide.matches) menu.scrollTop = current.offsetTop - menu.clientHeight / 2;

for (const block of document.querySelectorAll("article pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const lines = block.innerText;
    await navigator.clipboard?.writeText(lines);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  const frame = document.createElement("div");
  frame.className = "code";
  block.replaceWith(frame);
  frame.append(block, button);
}

// The heading that is being read is marked in the list beside the page.
const marks = new Map([...document.querySelectorAll(".toc a")].map((a) => [decodeURIComponent(a.hash.slice(1)), a]));
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const a of marks.values()) a.removeAttribute("aria-current");
    marks.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-10% 0px -75% 0px" });
for (const id of marks.keys()) {
  const heading = document.getElementById(id);
  if (heading) watcher.observe(heading);
}

// The search. Its index is loaded when it is first opened, and built here: that takes less than sending it would.
const dialog = one("[data-dialog]");
const input = dialog.querySelector("input");
const results = dialog.querySelector("ol");
const count = dialog.querySelector(".count");
let index;

// words splits a text: wait-for-dns and --attempt-timeout are found as a whole and by their parts.
const words = (text) => text.split(/[\s"'`()[\]{},;:=|<>…]+/).flatMap((word) => {
  const whole = word.replace(/^[-./]+|[-./]+$/g, "");
  const parts = whole.split(/[-./_#@&?]+/);
  return parts.length > 1 ? [whole, ...parts] : [whole];
}).filter(Boolean);

async function load() {
  const response = await fetch(new URL("search.json", base));
  const sections = await response.json();
  const made = new MiniSearch({
    idField: "url",
    fields: ["title", "page", "text"],
    storeFields: ["page", "title", "text"],
    tokenize: words,
    searchOptions: {
      boostDocument: (url) => (/^(docs\/(benchmarks|compared|dependencies|site)|changelog|contributing|test)\//.test(url) ? 0.3 : 1), // after the pages on use
      boost: { title: 4, page: 3 }, prefix: (term) => term.length > 2, fuzzy: (term) => (term.length > 4 ? 0.2 : 0), combineWith: "AND",
    },
  });
  made.addAll(sections);
  return made;
}

// excerpt returns a part of the text around the first of the terms, with the terms marked.
function excerpt(text, terms) {
  const pattern = new RegExp(terms.map((t) => t.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).sort((a, b) => b.length - a.length).join("|"), "gi");
  const first = Math.max(0, text.search(pattern));
  let begin = first > 60 ? text.indexOf(" ", first - 60) + 1 : 0;
  if (begin > first) begin = first;
  const part = text.slice(begin, begin + 180);
  const line = document.createElement("span");
  let at = 0;
  line.append(begin > 0 ? "… " : "");
  for (const match of part.matchAll(pattern)) {
    const mark = document.createElement("mark");
    mark.textContent = match[0];
    line.append(part.slice(at, match.index), mark);
    at = match.index + match[0].length;
  }
  line.append(part.slice(at), begin + 180 < text.length ? " …" : "");
  return line;
}

async function search() {
  const query = input.value.trim();
  results.replaceChildren();
  count.textContent = "";
  if (query === "") return;
  index ??= load();
  const made = await index;
  if (query !== input.value.trim()) return; // more was typed meanwhile
  const exact = made.search(query, { fuzzy: false });
  const found = exact.length > 0 ? exact : made.search(query, { combineWith: "OR" });
  count.textContent = found.length === 0 ? "Nothing found." : found.length === 1 ? "1 section" : `${found.length} sections`;
  results.replaceChildren(...found.slice(0, 20).map((hit) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = new URL(hit.id, base);
    const name = document.createElement("strong");
    name.textContent = hit.title === hit.page ? hit.page : `${hit.page} › ${hit.title}`;
    link.append(name, excerpt(hit.text, hit.terms));
    link.addEventListener("click", () => dialog.close());
    item.append(link);
    return item;
  }));
}

function open() {
  index ??= load();
  dialog.showModal();
  input.select();
}

one("[data-search]").addEventListener("click", open);
input.addEventListener("input", search);
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if ((event.key === "/" && !typing) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    if (!dialog.open) open();
    return;
  }
  if (!dialog.open || !/^(ArrowDown|ArrowUp|Enter)$/.test(event.key)) return;
  const links = [...results.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter") {
    if (at < 0) {
      event.preventDefault();
      links[0]?.click();
    }
    return;
  }
  event.preventDefault();
  const next = event.key === "ArrowDown" ? at + 1 : at - 1;
  (next < 0 ? input : links[Math.min(next, links.length - 1)])?.focus();
});
