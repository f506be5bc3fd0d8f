// The browser part: a host with a gateway serves it and calls mount.
export function mount(element, { settings, call }) {
  const title = document.createElement("h2");
  title.textContent = settings.title;
  const list = document.createElement("ul");
  element.replaceChildren(title, list);
  return call("summary", {}).then((summary) => {
    for (const [what, number] of Object.entries(summary.counts).slice(0, settings.rows)) {
      const row = document.createElement("li");
      row.textContent = `${what}: ${number}`;
      list.append(row);
    }
  });
}
