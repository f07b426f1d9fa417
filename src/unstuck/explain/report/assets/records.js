"use strict";
(() => {
  const root = document.documentElement;
  const find = document.getElementById("find");
  const english = find ? find.placeholder : "";

  function speak(lang) {
    root.dataset.lang = lang;
    root.lang = lang === "zh" ? "zh-Hans" : "en";
    if (find) find.placeholder = lang === "zh" ? find.dataset.zh : english;
    try { localStorage.setItem("lang", lang); } catch (error) { /* a file:// page may not store */ }
  }

  let lang = navigator.language.startsWith("zh") ? "zh" : "en";
  try { lang = localStorage.getItem("lang") || lang; } catch (error) { /* as above */ }
  const asked = location.hash.slice(1);
  speak(asked === "zh" || asked === "en" ? asked : lang);
  for (const button of document.querySelectorAll("nav button")) {
    button.addEventListener("click", () => speak(button.dataset.to));
  }

  if (!find) return;
  const rows = [...document.querySelectorAll(".index li")];
  const counts = document.querySelectorAll("#count b");
  find.addEventListener("input", () => {
    // A pasted message has numbers of its own: only its words are looked for.
    const words = find.value.toLowerCase().match(/[a-z_]{2,}|[\u4e00-\u9fff]+/g) || [];
    const need = Math.ceil(words.length * 0.7);
    let shown = 0;
    for (const row of rows) {
      const hits = words.filter((word) => row.dataset.text.includes(word)).length;
      row.hidden = hits < need;
      if (!row.hidden) shown += 1;
    }
    for (const count of counts) count.textContent = shown;
  });
})();
