// Draws every [data-graph] with Cytoscape: nodes (id, label, kind, state, step, here, href), from earlier to later, and
// edges (from, to, word). A click opens a node; arrow keys choose one, and Enter opens it. The chosen node is described in
// [data-graph-told]. Each page also has the same as a list, so nothing is missing without scripts.

const NARROW = 460;
const LEAST = 0.66;
const MARGIN = 24;
const drawn = new Map();
const probe = document.createElement("span");
probe.hidden = true;
document.documentElement.append(probe);

// Cytoscape adds a style element, which the content security policy forbids, unless there is an element with this id.
const settled = document.createElement("meta");
settled.id = "__________cytoscape_stylesheet";
document.head.append(settled);

// Allows line breaks within words that are too long for a line.
function breakable(text) {
  return text.replace(/\S{18}(?=\S)/gu, "$&\u200b");
}

function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

// A column for each step, or a row in a narrow frame, all of them centred.
function laid(nodes, frame) {
  const across = frame.clientWidth >= NARROW;
  const columns = new Map();
  for (const node of nodes) columns.set(node.step, [...(columns.get(node.step) ?? []), node]);
  const steps = [...columns.keys()].sort((a, b) => a - b);
  const wide = across ? 245 : 175;
  const high = across ? 90 : 117;
  const places = {};
  steps.forEach((step, at) => {
    const column = columns.get(step);
    column.forEach((node, number) => {
      const off = number - (column.length - 1) / 2;
      places[node.id] = across ? { x: at * wide, y: off * high } : { x: off * wide, y: at * high };
    });
  });
  const most = Math.max(...[...columns.values()].map((column) => column.length));
  return { places, height: Math.min(480, Math.max(150, (across ? most : steps.length) * high + 60)) };
}

function style() {
  const text = colour("text");
  const card = colour("card");
  const line = colour("line-strong");
  const accent = colour("accent");
  const font = getComputedStyle(document.documentElement).fontFamily;
  const kinds = ["episode", "fact", "rule"].map((kind) => ({
    selector: `node[kind = "${kind}"]`,
    style: { "background-color": colour(`${kind}-soft`), "border-color": colour(kind) },
  }));
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle", width: 160, height: 62, label: "data(shown)", "font-family": font, "font-size": 12.5, color: text, "text-wrap": "wrap", "text-max-width": 148,
        "text-valign": "center", "text-halign": "center", "line-height": 1.25, "background-color": card, "border-color": line, "border-width": 1,
      },
    },
    ...kinds,
    { selector: 'node[kind = "run"]', style: { shape: "round-hexagon", width: 120, height: 40 } },
    { selector: "node[?past]", style: { "border-style": "dashed", "background-opacity": 0.45 } },
    { selector: "node[?here]", style: { "border-width": 3, "font-weight": 700 } },
    {
      selector: "edge",
      style: {
        label: "data(word)", "font-family": font, "font-size": 11, color: colour("muted"), "text-background-color": colour("paper"), "text-background-opacity": 1, "text-background-padding": 2,
        width: 1.4, "line-color": line, "target-arrow-color": line, "target-arrow-shape": "triangle", "arrow-scale": 0.9, "curve-style": "bezier",
      },
    },
    // An edge that passes a column is bent around the nodes in it.
    { selector: "edge[?far]", style: { "curve-style": "unbundled-bezier", "control-point-distances": 70, "control-point-weights": 0.5 } },
    { selector: "node.chosen", style: { "underlay-color": accent, "underlay-opacity": 0.3, "underlay-padding": 6 } },
  ];
}

const PAST = ["superseded", "expired", "retracted", "forgotten", "archived"];

function draw(frame) {
  drawn.get(frame)?.cy.destroy();
  const spec = JSON.parse(frame.dataset.graph);
  frame.style.display = "block";
  const { places, height } = laid(spec.nodes, frame);
  frame.style.height = `${height}px`;
  const steps = Object.fromEntries(spec.nodes.map((node) => [node.id, node.step]));
  const cy = cytoscape({
    container: frame,
    elements: [
      ...spec.nodes.map((node) => ({ data: { ...node, shown: breakable(node.label), past: PAST.includes(node.state) }, position: places[node.id] })),
      ...spec.edges.map((edge, at) => ({ data: { id: `edge-${at}`, source: edge.from, target: edge.to, word: edge.word, far: Math.abs(steps[edge.from] - steps[edge.to]) > 1 } })),
    ],
    style: style(),
    layout: { name: "preset" },
    autoungrabify: true,
    boxSelectionEnabled: false,
    userZoomingEnabled: false,
    maxZoom: 1.15,
  });
  fit(cy);
  const told = frame.parentElement.querySelector("[data-graph-told]");
  const choose = (node) => {
    cy.nodes().removeClass("chosen");
    node?.addClass("chosen");
    frame.dataset.chosen = node?.id() ?? "";
    if (told) told.textContent = node ? `${node.data("kind")}${node.data("state") ? `, ${node.data("state")}` : ""}: ${node.data("label")}` : "";
  };
  cy.on("tap", "node", (event) => open(event.target));
  cy.on("mouseover", "node", (event) => { frame.classList.add("graph-leads"); choose(event.target); });
  cy.on("mouseout", "node", () => { frame.classList.remove("graph-leads"); choose(null); });
  drawn.set(frame, { cy, choose, width: frame.clientWidth, told: frame.dataset.graph });
}

// Shows the whole graph if that is readable, else the surroundings of the memory, with panning.
function fit(cy) {
  cy.fit(undefined, MARGIN);
  const whole = cy.zoom() >= LEAST;
  if (!whole) {
    cy.zoom(LEAST);
    show(cy, cy.nodes("[?here]"));
  }
  cy.userPanningEnabled(!whole);
}

// Centres a node, as far as that leaves no empty space at the edges.
function show(cy, node) {
  const box = cy.elements().boundingBox();
  const place = (middle, low, high, size) => {
    const length = (high - low) * LEAST;
    if (length <= size - 2 * MARGIN) return size / 2 - ((low + high) / 2) * LEAST;
    return Math.max(size - MARGIN - high * LEAST, Math.min(MARGIN - low * LEAST, size / 2 - middle * LEAST));
  };
  cy.pan({
    x: place(node.position("x"), box.x1, box.x2, cy.width()),
    y: place(node.position("y"), box.y1, box.y2, cy.height()),
  });
}

function open(node) {
  if (!node.data("here")) location.assign(node.data("href"));
}

// The nearest node in the direction of the key.
function beside(cy, from, key) {
  const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const start = from.position();
  let best = null;
  let least = Infinity;
  cy.nodes().forEach((node) => {
    const along = (node.position("x") - start.x) * x + (node.position("y") - start.y) * y;
    const aside = Math.abs((node.position("x") - start.x) * y) + Math.abs((node.position("y") - start.y) * x);
    if (along > 1 && along + 2 * aside < least) [best, least] = [node, along + 2 * aside];
  });
  return best;
}

document.addEventListener("keydown", (event) => {
  const made = drawn.get(event.target);
  if (!made || event.altKey || event.ctrlKey || event.metaKey) return;
  const { cy, choose } = made;
  const chosen = cy.nodes(".chosen").first();
  if (event.key === "Enter" && chosen.length) open(chosen);
  else if (event.key === "Escape") choose(null);
  else if (event.key.startsWith("Arrow")) {
    const here = cy.nodes("[?here]").first();
    const next = chosen.length ? beside(cy, chosen, event.key) ?? chosen : beside(cy, here, event.key) ?? here;
    choose(next);
    if (cy.userPanningEnabled()) show(cy, next);
  } else return;
  event.preventDefault();
});
document.addEventListener("focusin", (event) => {
  const made = drawn.get(event.target);
  if (made && event.target.matches(":focus-visible")) made.choose(made.cy.nodes("[?here]").first());
});
document.addEventListener("focusout", (event) => drawn.get(event.target)?.choose(null));

const size = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const made = drawn.get(target);
    if (!made || made.width === target.clientWidth) continue;
    if (made.width >= NARROW === target.clientWidth >= NARROW) {
      made.width = target.clientWidth;
      made.cy.resize();
      fit(made.cy);
    } else draw(target);
  }
});

// Graphs come and go when a part of a page is swapped.
function review() {
  for (const [frame, made] of drawn) {
    if (frame.isConnected) continue;
    made.cy.destroy();
    size.unobserve(frame);
    drawn.delete(frame);
  }
  for (const frame of document.querySelectorAll("[data-graph]")) {
    if (drawn.get(frame)?.told === frame.dataset.graph) continue;
    draw(frame);
    size.observe(frame);
  }
}

const restyle = () => drawn.forEach(({ cy }) => cy.style(style()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
new MutationObserver(restyle).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
document.addEventListener("htmx:afterSwap", review);
review();
