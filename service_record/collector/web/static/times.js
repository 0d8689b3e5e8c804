// Shows times in the time zone of the browser, or in UTC as the server writes them. The browser keeps the choice.
"use strict";

const zone = document.querySelector("[data-zone]");
let isLocal = true;
try {
  isLocal = localStorage.getItem("zone") !== "utc";
} catch {
  // without storage the choice holds for this page
}

const format = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" }); // 2026-11-21 03:12:05

function showTimes() {
  for (const each of document.querySelectorAll("time[datetime]")) {
    const utc = each.getAttribute("datetime");
    const text = isLocal ? format.format(new Date(utc)) : utc.replace("T", " ");
    if (each.textContent === text) continue;
    each.textContent = text;
    each.title = isLocal ? `${utc.replace("T", " ")} (UTC)` : "";
  }
  zone.textContent = isLocal ? "Local" : "UTC";
  zone.title = isLocal ? "Show times in UTC" : "Show times in this browser's time zone";
}

zone.hidden = false;
zone.addEventListener("click", () => {
  isLocal = !isLocal;
  try {
    localStorage.setItem("zone", isLocal ? "local" : "utc");
  } catch {
    // as above
  }
  showTimes();
});
showTimes();
new MutationObserver(showTimes).observe(document.getElementById("contents"), { childList: true, subtree: true });
