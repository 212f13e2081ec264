// Live updates: when an event concerns a block with data-live, the page is fetched again and the block is replaced.
//
// data-live lists the kinds of memories that a block shows, or `all`. A block in which the visitor types, or has filled in
// a form, is replaced when they are done. A block with data-waits shows something whose end no event tells, such as a job,
// and is fetched again until it has ended.

// The kind of memory that a topic concerns; null if the message has it.
const KINDS = {
  "memory:episodic:saved": "episode",
  "memory:episodic:pruned": "episode",
  "memory:semantic:saved": "fact",
  "rule:registered": "merge_rule",
  "rule:updated": "merge_rule",
  "rule:deleted": "merge_rule",
  "audit:changed": null,
};
const PAUSE = 600;
const LATER = 3_000;
const AGAIN = 30_000;
const mark = document.querySelector("[data-live-mark]");
const due = new Set();
let source = null;
let last = "";
let timer = 0;
let pause = PAUSE;

function blocks() {
  return [...document.querySelectorAll("[data-live][id]")];
}

function waiting() {
  return blocks().filter((block) => "waits" in block.dataset);
}

function tell(isLive) {
  if (!mark) return;
  mark.hidden = false;
  mark.classList.toggle("is-live", isLive);
  mark.lastChild.textContent = isLive ? "live" : "not live";
}

function concerns(block, kind) {
  const kinds = block.dataset.live.split(/\s+/);
  return kinds.includes("all") || kinds.includes(kind);
}

function heard(event) {
  last = event.lastEventId || last;
  const kind = KINDS[event.type] ?? JSON.parse(event.data).payload.kind;
  for (const block of blocks()) if (concerns(block, kind)) due.add(block.id);
  soon();
}

function soon() {
  if (source) for (const block of waiting()) due.add(block.id);
  if (due.size && !timer && !document.hidden) timer = setTimeout(refresh, pause);
}

function isBusy(block) {
  const at = document.activeElement;
  const types = at && block.contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
  return types || document.querySelector("dialog[open]") !== null || isFilledIn(block);
}

function isFilledIn(block) {
  return [...block.querySelectorAll("form :is(input, textarea, select)")].some((each) =>
    each.tagName === "SELECT"
      ? each.selectedIndex !== Math.max(0, [...each.options].findIndex((option) => option.defaultSelected))
      : each.value !== each.defaultValue || each.checked !== each.defaultChecked,
  );
}

// The timer is set until the page has arrived, so that there is one request at a time.
async function refresh() {
  const wanted = [...due];
  due.clear();
  try {
    const answer = await fetch(location.href, { headers: { "X-Tulving-Live": "1" } });
    if (answer.redirected) return stop();
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    pause = PAUSE;
    for (const id of wanted) {
      const old = document.getElementById(id);
      const now = fresh.getElementById(id);
      if (old && isBusy(old)) {
        due.add(id);
        pause = LATER;
      } else if (old && now) swap(old, now);
    }
    if (waiting().length) pause = LATER;
  } catch {
    // The server is busy or unreachable: it is asked again, after ever longer pauses.
    for (const id of wanted) due.add(id);
    pause = Math.min(2 * pause, AGAIN);
  } finally {
    timer = 0;
    soon();
  }
}

function place(element, within) {
  return [...within.querySelectorAll(element.tagName)].indexOf(element);
}

// Where a link, or the first link of an entry, leads to.
function address(element) {
  return (element.matches("a") ? element : element.querySelector("a[href]"))?.getAttribute("href");
}

// Which one of its entry, or of the block outside of entries, an element is.
function placed(element, block) {
  const entry = element.closest("[data-item]");
  return entry ? `${address(entry)} ${place(element, entry)}` : place(element, block);
}

// The links that stand in the lists of a block only once, by where they lead to.
function landmarks(block) {
  const found = new Map();
  for (const each of block.querySelectorAll("[data-item] a[href]")) {
    const to = each.getAttribute("href");
    found.set(to, found.has(to) ? null : each);
  }
  return found;
}

function top(element) {
  return element.getBoundingClientRect().top;
}

// Replaces a block. Open details stay open, the focus stays where it was, and what is read in a list
// stays where it is in the window.
function swap(old, now) {
  if (old.innerHTML === now.innerHTML) return;
  const open = new Map([...old.querySelectorAll("details")].map((each) => [placed(each, old), each.open]));
  const at = document.activeElement;
  const focus = old.contains(at) && at !== old ? [at.tagName, address(at), place(at, old)] : null;
  const made = document.importNode(now, true);
  for (const each of made.querySelectorAll("details")) each.open = open.get(placed(each, made)) ?? each.open;
  for (const each of made.querySelectorAll("[data-copy][hidden]")) each.hidden = false;
  const read = top(old) < 0 && [...landmarks(old)].find(([, link]) => link && top(link) >= 0);
  const height = read && top(read[1]);
  old.replaceWith(made);
  const still = read && landmarks(made).get(read[0]);
  if (still) scrollBy({ top: top(still) - height, behavior: "instant" });
  window.htmx?.process(made);
  if (focus) {
    const [tag, href, number] = focus;
    const same = href && [...made.querySelectorAll(tag)].find((each) => address(each) === href);
    const next = same || made.querySelectorAll(tag)[number];
    if (next && at.hasAttribute("tabindex")) next.tabIndex = at.tabIndex;
    next?.focus({ preventScroll: true });
  }
}

function start() {
  if (source || document.hidden || !blocks().length) return;
  source = new EventSource(`/console/live?topics=memory,rule,audit${last ? `&after=${encodeURIComponent(last)}` : ""}`);
  source.addEventListener("open", () => tell(true));
  source.addEventListener("error", () => {
    tell(false);
    // Browsers reconnect by themselves, except after a refusal: the token is invalid, or too many streams are open.
    if (source?.readyState === EventSource.CLOSED) {
      stop();
      setTimeout(start, AGAIN);
    }
  });
  for (const topic of Object.keys(KINDS)) source.addEventListener(topic, heard);
  soon();
}

function stop() {
  source?.close();
  source = null;
  tell(false);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return stop();
  start();
  if (!last) for (const block of blocks()) due.add(block.id);
  soon();
});
window.addEventListener("pagehide", () => {
  source?.close();
  source = null;
});
window.addEventListener("pageshow", start);
document.addEventListener("focusout", soon);
