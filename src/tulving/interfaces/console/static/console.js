// What all pages share: confirmation dialogs, the theme, copying and shortcuts. Pages work without it.

const root = document.documentElement;
const token = document.querySelector("meta[name=form-token]")?.content;

// Confirmation: a form with data-ask, or a button named _ask, opens a dialog. Without scripts the server asks on a page.

function dialog(title, ...parts) {
  const made = document.createElement("dialog");
  const heading = document.createElement("h2");
  heading.textContent = title;
  heading.id = "dialog-title";
  made.setAttribute("aria-labelledby", heading.id);
  made.append(heading, ...parts);
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}

function button(text, className, act) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: text, className });
  made.addEventListener("click", act);
  return made;
}

function row(...parts) {
  const made = document.createElement("div");
  made.className = "actions";
  made.append(...parts);
  return made;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const pressed = event.submitter;
  const question = form.dataset.ask || (pressed?.name === "_ask" && pressed.value);
  if (!question || form.elements._sure) return;
  event.preventDefault();
  event.stopPropagation();
  const yes = button(pressed?.textContent.trim() || "Yes", pressed?.className.replace("button-small", "") || "button", () => {
    const sure = document.createElement("input");
    Object.assign(sure, { type: "hidden", name: "_sure", value: "1" });
    form.append(sure);
    asked.close();
    form.requestSubmit(pressed);
    sure.remove();
  });
  const no = button("Cancel", "button", () => asked.close());
  const asked = dialog(question, row(yes, no));
  asked.firstChild.dir = "auto";
  no.focus();
}, true);

// The theme, without a page load.

document.addEventListener("submit", (event) => {
  const toggle = event.submitter;
  if (!toggle || !("themeToggle" in toggle.dataset)) return;
  event.preventDefault();
  const chosen = toggle.value;
  const other = chosen === "dark" ? "light" : "dark";
  const sent = new URLSearchParams(new FormData(event.target));
  sent.set("theme", chosen);
  root.dataset.theme = chosen;
  toggle.value = other;
  toggle.setAttribute("aria-label", `${other === "dark" ? "Dark" : "Light"} theme`);
  fetch(event.target.action, { method: "POST", body: sent, redirect: "manual" });
});

// Without a choice of the visitor, the button offers the opposite of the system's theme.
const toggle = document.querySelector("[data-theme-toggle]");
if (toggle && !root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches) {
  toggle.value = "light";
  toggle.setAttribute("aria-label", "Light theme");
}

// Copying.

function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return Promise.resolve();
}

function unhide(within) {
  for (const each of within.querySelectorAll("[data-copy][hidden]")) each.hidden = false;
}

unhide(document);
document.addEventListener("htmx:afterSwap", (event) => unhide(event.target));

document.addEventListener("click", async (event) => {
  const pressed = event.target.closest("[data-copy]");
  if (!pressed) return;
  const text = pressed.parentElement.querySelector("code, pre").textContent;
  const label = pressed.textContent;
  await copied(text).then(() => (pressed.textContent = "Copied"), () => (pressed.textContent = "Press Ctrl+C"));
  setTimeout(() => (pressed.textContent = label), 2000);
});

// htmx requests send the CSRF token as a header.

document.addEventListener("htmx:configRequest", (event) => {
  if (token) event.detail.headers["X-Tulving-Form"] = token;
});

// Shortcuts. Inactive while the visitor types, and with Ctrl, Alt or Meta.

const ITEMS = "main [data-item], main a.line:not([data-item] *)";
const KEYS = [
  ["/", "Search"],
  ["j  k", "Next and previous entry of a list"],
  ["Enter", "Open it"],
  ["Esc", "Leave a field"],
  ["?", "This list"],
];
let began = -Infinity;

function typing(at) {
  return at.isContentEditable || (/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== "checkbox");
}

function shown(element) {
  return element.getClientRects().length > 0;
}

function help() {
  const list = document.createElement("dl");
  list.className = "keys";
  const pages = [...document.querySelectorAll(".side [data-key]")];
  const own = [...document.querySelectorAll("main [data-press]")].map((each) => [each.dataset.press, each.textContent.trim()]);
  const known = new Map([...KEYS, ...own, ...pages.map((each) => [`g ${each.dataset.key}`, each.textContent.trim()])]);
  for (const [keys, text] of known) {
    const term = document.createElement("dt");
    for (const key of keys.split(" ").filter(Boolean)) {
      const cap = document.createElement("kbd");
      cap.textContent = key;
      term.append(cap);
    }
    const meaning = document.createElement("dd");
    meaning.textContent = text;
    list.append(term, meaning);
  }
  list.tabIndex = 0;
  const close = button("Close", "button", () => opened.close());
  const opened = dialog("Keys", list, row(close));
  close.focus();
}

const keys = document.querySelector("[data-keys]");
if (keys) {
  keys.hidden = false;
  keys.addEventListener("click", help);
}

function move(step) {
  const items = [...document.querySelectorAll(ITEMS)].filter(shown);
  if (!items.length) return;
  const here = items.indexOf(document.activeElement.closest(ITEMS));
  const next = items[here < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(Math.max(here + step, 0), items.length - 1)];
  if (next.tagName !== "A" && !next.hasAttribute("tabindex")) next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

// The first link of the entry with the focus; links and buttons in it open by themselves.
function follow() {
  if (document.activeElement.matches("[data-item]")) document.activeElement.querySelector("a[href]")?.click();
}

// A button with data-press is pressed by its key: that of the entry with the focus, else the first one.
function press(key) {
  const wanted = `[data-press="${CSS.escape(key)}"]`;
  const item = document.activeElement.closest("[data-item]");
  const found = item ? item.querySelector(wanted) : [...document.querySelectorAll(wanted)].find(shown);
  found?.click();
  return Boolean(found);
}

function search() {
  const field = [...document.querySelectorAll("main input[type=search]")].find(shown);
  if (field) {
    field.focus();
    field.select?.();
  } else {
    document.querySelector('.side a[href="/console/ask"]')?.click();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const isSecond = performance.now() - began < 1500;
  began = -Infinity;
  if (isSecond) {
    const link = document.querySelector(`.side [data-key="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  const acts = { "/": search, "?": help, j: () => move(1), k: () => move(-1), g: () => (began = performance.now()) };
  const act = acts[event.key];
  if (event.key === "Enter") {
    follow();
  } else if (act) {
    act();
    event.preventDefault();
  } else if (event.key.length === 1 && press(event.key)) {
    event.preventDefault();
  }
});
