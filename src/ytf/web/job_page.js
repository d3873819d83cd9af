"use strict";
// Links are relative to a directory, but the proxy also serves the page without the final slash.
if (!location.pathname.endsWith("/")) location.replace(location.pathname + "/" + location.search);

const LOOK_MS = 2000, LONGEST_MS = 30000, USAGE_MS = 5000;
const notice = document.getElementById("notice");
const shown = new Set();
let pause = LOOK_MS, usageAt = performance.now();

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  // After the end of the job YARN's proxy redirects to another page.
  if (!answer.ok || answer.redirected) throw new Error(path);
  return answer;
}

async function showTail(link) {
  const row = link.closest("tr"), id = link.getAttribute("href");
  let tail = document.getElementById(id);
  if (!tail) {
    tail = document.createElement("tr");
    tail.id = id;
    tail.className = "tail";
    const cell = tail.insertCell();
    cell.colSpan = row.cells.length;
    cell.appendChild(document.createElement("pre")).textContent = "…";
    row.after(tail);
  }
  const pre = tail.querySelector("pre");
  const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
  const text = await fetch(id, { cache: "no-store" }).then((a) => a.text(), () => null);
  if (text === null) return;
  pre.textContent = text || "It is empty so far.";
  if (atEnd) pre.scrollTop = pre.scrollHeight;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-log]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const id = link.getAttribute("href");
  if (shown.delete(id)) document.getElementById(id).remove();
  else { shown.add(id); showTail(link); }
});

function take(page) {
  const old = document.querySelector("main"), main = page.querySelector("main");
  for (const kept of old.querySelectorAll("details")) main.querySelector("#" + kept.id).open = kept.open;
  const tails = [...old.querySelectorAll("tr.tail")];
  old.replaceWith(main);
  for (const tail of tails) {
    const link = [...main.querySelectorAll("a[data-log]")].find((a) => a.getAttribute("href") === tail.id);
    if (link) link.closest("tr").after(tail);
    else shown.delete(tail.id);
  }
  document.title = page.title;
  document.querySelector("link[rel=icon]").href = page.querySelector("link[rel=icon]").href;
}

async function look() {
  const version = await get("api/version").then((answer) => answer.json());
  if (version !== document.querySelector("main").dataset.version) {
    const text = await get("./").then((answer) => answer.text());
    take(new DOMParser().parseFromString(text, "text/html"));
    usageAt = performance.now();
  } else if (performance.now() - usageAt >= USAGE_MS) {
    const text = await get("usage").then((answer) => answer.text());
    usageAt = performance.now();
    const section = new DOMParser().parseFromString(text, "text/html").getElementById("usage");
    if (section) document.getElementById("usage").replaceWith(section);
  }
  for (const link of document.querySelectorAll("a[data-log]")) {
    if (shown.has(link.getAttribute("href"))) await showTail(link);
  }
}

// Counted here, because the browser's clock may differ from the master's.
function tick() {
  const span = document.querySelector("[data-seconds]");
  if (!span || !notice.hidden) return;
  const begun = (span.begun ??= performance.now() / 1000 - Number(span.dataset.seconds));
  const total = Math.floor(performance.now() / 1000 - begun);
  const two = (n) => String(n % 60).padStart(2, "0");
  span.textContent = Math.floor(total / 3600) + ":" + two(Math.floor(total / 60)) + ":" + two(total);
}
setInterval(tick, 1000);

async function watch() {
  if (!document.hidden) {
    try {
      await look();
      notice.hidden = true;
      pause = LOOK_MS;
    } catch {
      notice.textContent = "The job's master does not answer: the job is over, or another master takes over. "
        + "What is shown is the last that was known; reload the page to see what there is now.";
      notice.hidden = false;
      pause = Math.min(2 * pause, LONGEST_MS);
    }
  }
  setTimeout(watch, pause);
}
setTimeout(watch, pause);
