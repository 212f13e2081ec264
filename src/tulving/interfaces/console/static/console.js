// What pages have in common: questions before acts, the theme, copying and keys. Every page can be read without it.

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.ask || form.elements._sure) return;
  event.preventDefault();
  const dialog = document.createElement("dialog");
  const text = document.createElement("p");
  text.textContent = form.dataset.ask;
  const row = document.createElement("div");
  row.className = "actions";
  const yes = document.createElement("button");
  yes.className = event.submitter?.className || "button";
  yes.textContent = event.submitter?.textContent || "Yes";
  const no = document.createElement("button");
  no.className = "button";
  no.textContent = "Cancel";
  no.addEventListener("click", () => dialog.close());
  yes.addEventListener("click", () => {
    const sure = document.createElement("input");
    Object.assign(sure, { type: "hidden", name: "_sure", value: "1" });
    form.append(sure);
    dialog.close();
    form.requestSubmit(event.submitter);
  });
  row.append(yes, no);
  dialog.append(text, row);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  no.focus();
});
