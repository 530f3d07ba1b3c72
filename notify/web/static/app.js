// The page is made on the server. This script keeps it fresh, its times relative, and posts
// decisions to the API. What happens it hears from stream.js, which all tabs share; where a browser
// has no shared workers it asks every few seconds instead.
"use strict";
(() => {
  const live = document.getElementById("live");
  const notice = document.getElementById("notice");
  const content = document.getElementById("content");
  const script = document.currentScript;
  let offset = 0; // the server's clock less ours
  const beat = 1000;   // a page is fetched at most once in this time
  const polled = 3000; // … and this often where nothing tells of events
  const lull = 60000;  // a stream may lose an entry: a page that is seen is never older than this
  let busy = false, timer = 0, due = 0, last = -beat, etag = script.dataset.etag;

  const inner = () => document.getElementById("inner");

  function syncClock(at) {
    const now = Date.parse(at);
    if (now) offset = now - Date.now();
  }

  function span(s) {
    if (s < 120) return Math.round(s) + " s";
    if (s < 7200) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " days";
  }

  function times() {
    const now = Date.now() + offset;
    for (const el of content.querySelectorAll("time[data-rel]")) {
      const s = (now - Date.parse(el.dateTime)) / 1000;
      el.textContent = s < 0 ? "in " + span(-s) : s < 5 ? "just now" : span(s) + " ago";
    }
  }

  function say(text, good) {
    notice.textContent = text;
    notice.hidden = !text;
    notice.classList.toggle("good", !!good);
  }

  function remembered() {
    try { return localStorage.getItem("paramedic-actor") || ""; } catch { return ""; }
  }

  function fillNames() {
    const name = remembered();
    for (const el of content.querySelectorAll("input[data-remember]")) if (!el.value && name) el.value = name;
  }

  // made notes how the server made the details, to tell what the reader opens or folds.
  function made() { for (const d of content.querySelectorAll("details[id]")) d.wasOpen = d.open; }

  // keep what the reader did to the page: open details, typed text, focus, scroll.
  function swap(html) {
    const open = new Map(), typed = new Map();
    for (const d of content.querySelectorAll("details[id]")) if (d.open !== d.wasOpen) open.set(d.id, d.open); // what the reader changed
    for (const i of content.querySelectorAll("input[id], select[id]")) if (i.value) typed.set(i.id, i.value);
    const active = document.activeElement, focus = active && content.contains(active) ? active.id : "";
    const caret = focus && "selectionStart" in active ? [active.selectionStart, active.selectionEnd] : null;
    const y = scrollY;
    content.innerHTML = html;
    made();
    for (const d of content.querySelectorAll("details[id]")) if (open.has(d.id)) d.open = open.get(d.id);
    for (const i of content.querySelectorAll("input[id], select[id]")) if (typed.has(i.id)) i.value = typed.get(i.id);
    const again = focus && document.getElementById(focus);
    if (again) { again.focus({preventScroll: true}); if (caret && caret[0] !== null) again.setSelectionRange(caret[0], caret[1]); }
    scrollTo(scrollX, y);
    times(); fillNames();
  }

  function selecting() {
    const s = getSelection();
    return s && !s.isCollapsed && content.contains(s.anchorNode);
  }

  async function refresh() {
    timer = 0;
    if (document.hidden) return; // it is fetched when it is seen again
    if (busy || selecting()) { later(2000); return; }
    busy = true; last = performance.now();
    let again = lull;
    try {
      const headers = {"X-Paramedic-Partial": "1"};
      if (etag) headers["If-None-Match"] = etag;
      const r = await fetch(location.pathname + location.search, {headers, cache: "no-store", signal: AbortSignal.timeout(20000)});
      if (r.status === 401) { location.href = "/login?next=" + encodeURIComponent(location.pathname + location.search); return; }
      if (r.redirected && new URL(r.url).pathname !== location.pathname) { location.href = r.url; return; }
      syncClock(r.headers.get("X-Paramedic-Now"));
      if (r.ok) { etag = r.headers.get("ETag") || ""; swap(await r.text()); } else if (r.status >= 500) again = 5000;
    } catch { again = 5000; }
    busy = false;
    if (inner().dataset.about) later(again);
  }

  // later fetches the page after so many milliseconds, unless that is to happen sooner anyway.
  function later(ms) {
    const now = performance.now(), at = Math.max(now + ms, last + beat);
    if (timer && due <= at) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(refresh, at - now);
  }

  // concerns says whether an entry of the timeline can change this page.
  function concerns(entry) {
    const about = inner().dataset.about;
    return about === "all" || !entry.incident || entry.incident === about;
  }

  function show(text, on) { live.textContent = text; live.classList.toggle("on", on); }

  function poll() {
    show("every " + polled / 1000 + " s", true);
    setInterval(() => later(0), polled);
  }

  function hear(m) {
    if (m.kind === "down") { show("reconnecting", false); return; }
    if (m.kind === "open") { show("live", true); later(0); return; } // something may have happened before
    let entry = {};
    try { entry = JSON.parse(m.data); } catch { /* refresh all the same */ }
    if (concerns(entry)) later(250);
  }

  // listen keeps the page fresh for as long as it is seen.
  function listen() {
    if (!inner().dataset.about) return; // nothing that happens changes this page
    document.addEventListener("visibilitychange", () => { if (!document.hidden) later(0); });
    addEventListener("pageshow", (e) => { if (e.persisted) later(0); });
    if (!window.SharedWorker) { poll(); return; }
    const worker = new SharedWorker(script.dataset.stream);
    const tell = () => worker.port.postMessage(document.hidden ? "hidden" : "seen");
    worker.addEventListener("error", poll, {once: true});
    worker.port.onmessage = (e) => hear(e.data);
    tell();
    setInterval(tell, 15000);
    document.addEventListener("visibilitychange", tell);
    addEventListener("pageshow", tell);
    addEventListener("pagehide", () => worker.port.postMessage("hidden"));
  }

  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.classList.contains("api")) return;
    e.preventDefault();
    const button = e.submitter, url = (button && button.dataset.post) || form.dataset.post;
    if (!url) return;
    const body = {};
    for (const [k, v] of new FormData(form)) if (v) body[k] = v;
    if (body.actor) { try { localStorage.setItem("paramedic-actor", body.actor); } catch { /* only a convenience */ } }
    if (form.dataset.planHash && /\/(approve|deny)$/.test(url)) body.plan_hash = form.dataset.planHash;
    if (form.dataset.seen) body.seen = form.dataset.seen;
    if (form.dataset.bodyCluster) body.cluster = form.dataset.bodyCluster;
    if (button && button.dataset.right) body.right = button.dataset.right === "true";
    if (body.right !== false) delete body.cause; // only a wrong verdict has another cause
    const buttons = form.querySelectorAll("button");
    buttons.forEach((b) => { b.disabled = true; });
    try {
      const r = await fetch(url, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
      const text = await r.text();
      let said = text;
      try { const j = JSON.parse(text); said = j.error || j.message || j.note || ""; } catch { /* plain text */ }
      if (r.ok) { say(said || "Recorded.", true); setTimeout(() => say(""), 4000); } else say(said || "That did not work: " + r.status);
    } catch { say("Paramedic cannot be reached. Nothing was recorded; try again."); }
    buttons.forEach((b) => { b.disabled = false; });
    later(150);
  });

  // Print everything: folded parts open for the printer.
  let folded = [];
  addEventListener("beforeprint", () => { folded = [...content.querySelectorAll("details:not([open])")]; folded.forEach((d) => { d.open = true; }); });
  addEventListener("afterprint", () => { folded.forEach((d) => { d.open = false; }); folded = []; });

  made(); syncClock(inner().dataset.now); times(); fillNames(); listen();
  setInterval(times, 1000);
})();
