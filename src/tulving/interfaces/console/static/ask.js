// The page Ask: a slider for `as_of`, results that follow each choice, and URLs without empty parameters.

const form = document.querySelector("[data-ask-form]");
const moment = form.elements.as_of;
const life = form.querySelector("[data-life]");
const slider = life?.querySelector("input");

function told() {
  const at = Number(slider.value) / Number(slider.max);
  if (at >= 1) return { field: "", words: "now" };
  const seconds = Number(slider.dataset.from) + at * (Number(slider.dataset.to) - Number(slider.dataset.from));
  // Rounded up to the minute, the precision of the field, so that the first memory exists at the start of the slider.
  const field = new Date(Math.ceil(seconds / 60) * 60000).toISOString().slice(0, 16);
  return { field, words: `${field.replace("T", " ")} UTC` };
}

function show(words) {
  life.querySelector("[data-life-text]").textContent = words;
  slider.setAttribute("aria-valuetext", words);
}

if (life) {
  life.hidden = false;
  life.querySelector("input").setAttribute("aria-label", "As it was at");
  show(moment.value ? `${moment.value.replace("T", " ")} UTC` : "now");
  slider.addEventListener("input", () => {
    const { field, words } = told();
    moment.value = field;
    show(words);
  });
  moment.addEventListener("change", () => {
    if (!moment.value) slider.value = slider.max;
    show(moment.value ? `${moment.value.replace("T", " ")} UTC` : "now");
  });
}

// Choices take effect at once, text fields with Enter.
form.addEventListener("change", (event) => {
  if (event.target.matches("select, [type=checkbox], [type=range], [type=datetime-local]") && form.elements.q.value.trim()) form.requestSubmit();
});

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt !== form) return;
  const parameters = event.detail.parameters;
  for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id !== "answers") return;
  document.title = `Ask: ${form.elements.q.value.trim().slice(0, 60)} · Tulving`;
  form.parentElement.querySelector("[data-ask-status]").textContent = event.detail.target.querySelector("[data-ask-told]")?.textContent ?? "";
});
