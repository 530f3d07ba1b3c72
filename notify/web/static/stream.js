// One event stream for all tabs of a browser. A browser opens six connections to a host over
// HTTP/1.1, and each stream keeps one: with a stream a tab, the seventh request would wait for
// ever. The stream is open while a tab is seen, and closed while none is.
"use strict";
const seen = new Map(); // the port of each tab that is seen, with the time when it was last heard of
const silent = 45000;   // a tab that crashed says no goodbye; one that is seen speaks every 15 s

let source = null, retry = 0, wait = 1000;

function tell(kind, data) { for (const port of seen.keys()) port.postMessage({kind, data}); }

function close() {
  clearTimeout(retry);
  retry = 0;
  if (source) source.close();
  source = null;
}

function open() {
  close();
  source = new EventSource("/api/v1/events");
  source.onopen = () => { wait = 1000; tell("open"); };
  source.onerror = () => {
    tell("down");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    retry = setTimeout(open, wait);
    wait = Math.min(wait * 2, 30000);
  };
  source.addEventListener("entry", (e) => tell("entry", e.data));
}

function show(port) {
  const known = seen.has(port);
  seen.set(port, Date.now());
  if (known) return;
  if (source && source.readyState === EventSource.OPEN) { port.postMessage({kind: "open"}); return; }
  wait = 1000;
  if (!source || source.readyState === EventSource.CLOSED) open();
}

function hide(port) {
  seen.delete(port);
  if (!seen.size) close();
}

onconnect = (e) => {
  const port = e.ports[0];
  port.onmessage = (m) => { if (m.data === "seen") show(port); else hide(port); };
};

setInterval(() => {
  const now = Date.now();
  for (const [port, at] of seen) if (now - at > silent) hide(port);
}, 15000);
