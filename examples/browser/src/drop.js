/** Files that a visitor drops anywhere on the page, or picks; of a folder, the files directly in it. */

/**
 * @param {object} elements
 * @param {HTMLElement} elements.veil Shown while files are dragged over the page.
 * @param {[HTMLButtonElement, HTMLInputElement][]} elements.pickers Buttons with the inputs they open.
 * @param {(files: File[]) => void} onFiles
 */
export function setUpDrop({ veil, pickers }, onFiles) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) veil.hidden = true;
  });
  addEventListener("drop", async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = true;
    onFiles(await droppedFiles(event.dataTransfer));
  });
  for (const [button, input] of pickers) {
    button.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      const files = [...input.files];
      input.value = ""; // so that the same file can be picked again
      if (files.length) onFiles(files);
    });
  }
}

/** @param {DataTransfer} data */
async function droppedFiles(data) {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  const files = [...data.files];
  const folders = entries.filter((entry) => entry?.isDirectory);
  if (!folders.length) return files;
  const inside = await Promise.all(folders.map(filesIn));
  return [...files.filter(({ name }) => !folders.some((folder) => folder.name === name)), ...inside.flat()];
}

/** @param {FileSystemDirectoryEntry} folder */
async function filesIn(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // at most 100 a call
    if (!some.length) break;
    all.push(...some.filter((entry) => entry.isFile));
  }
  return Promise.all(all.map((entry) => new Promise((resolve, reject) => entry.file(resolve, reject))));
}
