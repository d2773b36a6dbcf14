// test.mjs opens the site in a headless Chromium, as a phone and as a wide screen: all links and anchors lead
// somewhere, nothing is loaded from elsewhere, nothing is logged to the console, no page scrolls sideways, the search
// finds what people look for, and axe-core finds nothing that keeps a reader out. docs/site/build.sh has built the site in
// bin/site/public. Without Chromium, the tests are skipped, unless CI=true.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { serve } from "./serve.mjs";

const out = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../bin/site");
const modules = createRequire(path.join(out, "package.json"));
const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((file) => fs.existsSync(file));
const skip = program === undefined && process.env.CI !== "true" ? "Chromium is not installed" : false;
// Without these, Chromium looks for updates and components of its maker.
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// none fails with the first of the faults, without repetitions.
function none(faults, where = "") {
  const different = [...new Set(faults)];
  assert.ok(different.length === 0, `${where} ${different.length} faults:\n${different.slice(0, 20).join("\n")}`);
}

let server, browser, base;
before(async () => {
  if (skip) return;
  server = await serve(out);
  base = `http://127.0.0.1:${server.address().port}/public`; // in a directory: the site must not need a host of its own
  browser = await modules("playwright-core").chromium.launch({ executablePath: program, args: quiet });
});
after(async () => {
  await browser?.close();
  server?.close();
});

// visit opens a page of a given width, in which faults collects what the browser complains of and what is loaded from
// elsewhere.
async function visit(width, options = {}) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => faults.push(`${page.url()}: ${message.type()}: ${message.text()}`));
  page.on("pageerror", (err) => faults.push(`${page.url()}: ${err}`));
  page.on("response", (response) => { if (response.status() >= 400) faults.push(`${page.url()}: ${response.url()}: status ${response.status()}`); });
  page.on("request", (request) => { if (!request.url().startsWith(base)) faults.push(`${page.url()}: loads ${request.url()}`); });
  return { page, faults, close: () => context.close() };
}

// survey returns what the present page has: its links within the site, its anchors, and whether it scrolls sideways.
const survey = (page) => page.evaluate(() => ({
  links: [...document.querySelectorAll("a[href]")].map((a) => a.href),
  anchors: [...document.querySelectorAll("[id]")].map((e) => e.id),
  duplicates: [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  title: document.title,
  headings: document.querySelectorAll("h1").length,
  broken: [...document.images].filter((image) => image.complete && image.naturalWidth === 0).map((image) => image.src),
}));

test("every page can be reached, and every link leads somewhere", { skip }, async () => {
  const { page, faults, close } = await visit(390);
  const seen = new Map(); // what survey returned, by address without anchor
  const queue = [`${base}/`];
  for (let url; (url = queue.pop()) !== undefined;) {
    if (seen.has(url)) continue;
    await page.goto(url);
    const found = await survey(page);
    seen.set(url, found);
    if (found.overflow > 0) faults.push(`${url}: scrolls sideways by ${found.overflow} pixels`);
    if (found.headings !== 1) faults.push(`${url}: ${found.headings} headings of the first level`);
    for (const id of found.duplicates) faults.push(`${url}: two elements have the id ${id}`);
    for (const image of found.broken) faults.push(`${url}: no picture at ${image}`);
    for (const link of found.links) {
      if (link.startsWith(new URL(base).origin) && !link.startsWith(`${base}/`)) faults.push(`${url}: link to ${link}: leads out of the site`);
    }
    const local = found.links.filter((link) => link.startsWith(base)).map((link) => link.split("#")[0]);
    queue.push(...new Set(local.filter((link) => link.endsWith("/") && !seen.has(link))));
    for (const link of local.filter((link) => !link.endsWith("/"))) {
      if ((await page.request.get(link)).status() !== 200) faults.push(`${url}: link to ${link}: no such file`);
    }
  }
  for (const [url, { links }] of seen) {
    for (const link of new Set(links)) {
      const [target, anchor] = link.split("#");
      if (!link.startsWith(base) || !anchor || !seen.has(target)) continue;
      if (!seen.get(target).anchors.includes(decodeURIComponent(anchor))) faults.push(`${url}: link to ${link}: no such heading`);
    }
  }
  const built = fs.readdirSync(path.join(out, "public"), { recursive: true }).filter((name) => name.endsWith("index.html"));
  for (const name of built) {
    if (!seen.has(`${base}/${name.replace(/index\.html$/, "")}`)) faults.push(`no link leads to ${name}`);
  }
  none(faults);
  await close();
});

test("the search finds commands, flags and messages", { skip }, async () => {
  const { page, faults, close } = await visit(390);
  for (const [query, where] of [
    ["nslookup", /\/docs\/moving\//], ["chown", /\/docs\/(prepare|moving)\//], ["attempt-timeout", /\/docs\/wait-for-/],
    ["--compat=git-sync", /\/docs\/git-clone\//], ["Init:0/1", /\/docs\/stuck-pods\//], ["pg_isready", /\/docs\/moving\//],
  ]) {
    await page.goto(`${base}/docs/copy/`); // not at the top: the addresses of results are relative to it
    await page.keyboard.press("/");
    await page.keyboard.type(query);
    const first = page.locator("#results a");
    await first.first().waitFor();
    const hits = await first.evaluateAll((links) => links.slice(0, 5).map((a) => a.href));
    assert.ok(hits.some((hit) => where.test(hit)), `${query}: the first results are ${hits.join(", ")}`);
    await page.keyboard.press("Enter");
    await page.waitForURL(hits[0]);
    none(faults);
  }
  await close();
});

test("the first page leads to an answer in two clicks", { skip }, async () => {
  const { page, faults, close } = await visit(390);
  for (const [card, link, to] of [
    ["A loop", "wait-for-dns", "/docs/wait-for-dns/"], ["A tool", "wait4x", "/docs/moving/"],
    ["A chart", "the library chart", "/charts/initbox/"], ["A stuck Pod", "The name", "/docs/stuck-pods/"],
  ]) {
    await page.goto(`${base}/`);
    await page.locator("article").getByRole("link", { name: card, exact: true }).click();
    await page.locator("article").getByRole("link", { name: link, exact: true }).first().click();
    await page.waitForURL((url) => url.pathname === `/public${to}`);
    none(faults);
  }
  await close();
});

test("nothing keeps readers out, in light and in dark colours", { skip }, async () => {
  const axe = fs.readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");
  for (const [width, name, colorScheme] of [[1400, "", "light"], [390, "", "dark"], [1400, "docs/copy/", "dark"], [390, "docs/copy/", "light"]]) {
    const { page, faults, close } = await visit(width, { colorScheme, bypassCSP: true });
    await page.goto(`${base}/${name}`);
    await page.evaluate(axe);
    const violations = await page.evaluate(async () => (await globalThis.axe.run()).violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(" ")}`));
    none([...faults, ...violations], `${name || "the first page"}, ${colorScheme}, ${width} pixels:`);
    await close();
  }
});

test("without scripts, pages and the menu can be read", { skip }, async () => {
  const { page, close } = await visit(390, { javaScriptEnabled: false });
  await page.goto(`${base}/docs/copy/`);
  assert.ok(await page.getByRole("link", { name: "wait-for-dns" }).first().isVisible());
  assert.ok(await page.getByRole("heading", { name: "initbox copy" }).isVisible());
  await close();
});
