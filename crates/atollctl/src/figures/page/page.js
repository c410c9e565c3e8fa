// Draws what data.json says. Names come from the bucket and may hold anything, so text is only ever set as text.
"use strict";

const USES = [["live", "live: only the newest root needs it"], ["shared", "shared: the past needs it, too"],
  ["history", "history: only the past needs it"], ["unneeded", "not needed: waits for the collector"]];
const ROWS_MAX = 40, STATES_MAX = 100;

function node(tag, attributes, ...children) {
  const svg = ["svg", "rect", "text", "line", "circle", "title", "g"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  for (const child of children) made.append(child);
  return made;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
}

function money(amount, currency) {
  return (amount !== 0 && amount < 0.01 ? amount.toPrecision(2) : amount.toFixed(2)) + " " + currency;
}

function utc(ms) { return new Date(ms).toISOString().replace("T", " ").slice(0, 19); }

function age(ms, now) {
  const s = Math.max(0, (now - ms) / 1000);
  if (s < 120) return Math.round(s) + " s ago";
  if (s < 7200) return Math.round(s / 60) + " min ago";
  if (s < 172800) return Math.round(s / 3600) + " h ago";
  return Math.round(s / 86400) + " days ago";
}

function count(number, thing) { return number.toLocaleString("en") + " " + thing + (number === 1 ? "" : "s"); }

function table(headings, rows) {
  const head = node("tr", {}, ...headings.map(h => node("th", h[0] === ">" ? { class: "number" } : {}, h.replace(/^>/, ""))));
  return node("table", {}, node("thead", {}, head), node("tbody", {}, ...rows));
}

function bytesOf(row) { return row.bytes_by_age.reduce((a, b) => a + b, 0); }

function show(id, ...children) { document.getElementById(id).replaceChildren(...children); }

function drawHead(data) {
  show("place", data.url);
  document.title = "Atoll: " + data.url;
  show("about", "Database " + data.db_uuid + " in " + data.place + ", " + data.owner);
  const total = data.cost.space.total, currency = data.cost.prices.currency;
  const newest = data.roots.length ? age(data.roots[data.roots.length - 1], data.now_ms) : "none";
  const health = data.health, proof = health.proof;
  const seen = health.owner_seen_ms ? age(health.owner_seen_ms, data.now_ms) : "no server";
  const proved = !proof ? "never" : age(proof.proved_ms, data.now_ms) + (proof.is_restorable ? "" : ": FAILED");
  const cards = [["server seen", seen, health.owner_seen_ms && !health.is_owner_alive],
    ["restore proved", proved, proof && !proof.is_restorable], ["newest root", newest], ["stored", size(bytesOf(total))], ["only for the past", size(total.history_bytes)],
    ["not needed", size(total.unneeded_bytes + total.foreign_bytes)],
    ["snapshots", data.states.filter(s => s.kind === "snapshot").length],
    [data.cost.prices_given ? "a month" : "a month (example)", money(data.cost.requests.reduce((sum, r) => sum + r.money_per_month, data.cost.stored_per_month), currency)]];
  show("cards", ...cards.map(([what, value, is_bad]) => node("div", { class: "card" },
    node("b", is_bad ? { class: "problem" } : {}, String(value)), node("span", {}, what))));
}

// Steps in seconds between marks of the time axis.
const STEPS = [1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000];

function timeLabel(ms, step) {
  const text = utc(ms);
  if (step >= 86400) return text.slice(0, 10);
  return step >= 60 ? text.slice(5, 16) : text.slice(11, 19);
}

function timeOf(state) { return state.commit_us ? state.commit_us / 1000 : state.created_ms; }

function drawLine(data) {
  const width = Math.max(520, document.getElementById("line").clientWidth), left = 96, right = width - 24;
  const times = data.roots.concat(data.states.map(timeOf));
  if (!times.length) return show("line", node("p", { class: "quiet" }, "Nothing was published yet."));
  const end = data.now_ms, first = times.reduce((a, b) => Math.min(a, b), end - 1000), begin = first - (end - first) * 0.02;
  const x = ms => left + (Math.min(ms, end) - begin) / (end - begin) * (right - left);
  const svg = node("svg", { width, height: 232, role: "img", "aria-label": "time line" });
  const label = (y, text) => svg.append(node("text", { x: left - 12, y, "text-anchor": "end" }, text));
  const base = [84, 124, 158, 192];
  const step = STEPS.find(s => (right - left) / ((end - begin) / 1000 / s) >= 110) || STEPS[STEPS.length - 1];
  for (let t = Math.ceil(begin / 1000 / step) * step * 1000; t <= end; t += step * 1000) {
    svg.append(node("line", { x1: x(t), x2: x(t), y1: 12, y2: 204, class: "axis" }));
    if (x(t) + 40 < width) svg.append(node("text", { x: x(t), y: 222, "text-anchor": "middle" }, timeLabel(t, step)));
  }
  label(222, "UTC");
  const bins = new Map(), wide = 5;
  for (const t of data.roots) { const at = Math.floor((x(t) - left) / wide); bins.set(at, (bins.get(at) || 0) + 1); }
  const most = Math.max(1, ...bins.values());
  for (const [at, n] of bins) {
    const high = Math.max(3, n / most * 60), time = utc(begin + at * wide / (right - left) * (end - begin));
    svg.append(node("rect", { x: left + at * wide, y: base[0] - high, width: wide - 1, height: high, class: "roots" },
      node("title", {}, count(n, "root") + " from " + time + " UTC on")));
  }
  label(base[0] - 2, "roots");
  if (most > 1) label(30, "max. " + most);
  const rows = [["history", "past", base[1]], ["snapshots", "held", base[2]], ["clones", "clone", base[3]]];
  for (const [what, css, y] of rows) {
    label(y, what);
    svg.append(node("line", { x1: left, x2: right, y1: y - 4, y2: y - 4, class: "axis" }));
    let numbered = -100;
    data.states.forEach((state, index) => {
      const kind = state.kind === "history" ? "history" : state.kind === "clone" ? "clones" : "snapshots";
      if (kind !== what) return;
      const at = x(timeOf(state)), text = state.name + " (" + state.kind + "), " + utc(timeOf(state)) + " UTC";
      const mark = what === "history"
        ? node("rect", { x: at, y: y - 10, width: Math.max(3, right - at), height: 12, class: css })
        : node("circle", { cx: at, cy: y - 4, r: 5, class: css });
      mark.append(node("title", {}, text));
      svg.append(mark);
      if (what === "history" || at - numbered < 26) return;
      numbered = at;
      svg.append(node("text", { x: at, y: y - 14, "text-anchor": "middle" }, String(index + 1)));
    });
  }
  show("line", svg);
}

function drawStates(data) {
  if (!data.states.length) return show("states", node("p", { class: "quiet" }, "No snapshots, no clones, no history."));
  const rows = data.states.slice(0, STATES_MAX).map((s, index) => node("tr", {},
    node("td", { class: "number" }, String(index + 1)), node("td", { class: "name", title: s.name }, s.name || (s.kind === "history" ? "(back to here)" : "(no name)")), node("td", {}, s.kind),
    node("td", {}, s.commit_us ? utc(s.commit_us / 1000) : ""), node("td", { class: "name", title: s.gtid_position }, s.gtid_position),
    node("td", { class: "number" }, size(s.shared_bytes)), node("td", { class: "number" }, size(s.alone_bytes))));
  const more = data.states.length - STATES_MAX;
  const rest = more > 0 ? [node("p", { class: "quiet" }, "and " + more + " more: atollctl snapshot list")] : [];
  show("states", table([">no.", "name", "kind", "last commit (UTC)", "GTID position", ">shared", ">kept by it alone"], rows), ...rest);
}

function drawSpace(data) {
  show("legend", ...USES.map(([css, what]) => node("span", {}, node("i", { class: css }), what)));
  const all = data.cost.space.rows, shown = all.slice(0, ROWS_MAX), most = Math.max(1, ...all.map(bytesOf));
  const mostOfCell = Math.max(1, ...all.flatMap(row => row.bytes_by_age));
  const ages = ["< 1 hour", "< 1 day", "< 1 week", "< 30 days", "< 1 year", "older"];
  const filled = ages.map((_, column) => column).filter(column => data.cost.space.total.bytes_by_age[column]);
  const rows = shown.map(row => {
    const parts = USES.map(([use]) => {
      const bytes = row[use + "_bytes"] + (use === "unneeded" ? row.foreign_bytes : 0);
      const part = node("i", { class: use, title: use + ": " + size(bytes) });
      part.style.width = bytes / most * 100 + "%";
      if (bytes) part.style.minWidth = "2px";
      return part;
    });
    const cells = filled.map(column => row.bytes_by_age[column]).map(bytes => {
      const cell = node("td", { class: "heat" }, bytes ? size(bytes) : "");
      if (bytes) cell.style.background = "rgba(var(--heat), " + (0.08 + 0.37 * Math.sqrt(bytes / mostOfCell)).toFixed(3) + ")";
      return cell;
    });
    return node("tr", {}, node("td", { class: "name", title: row.name }, row.name), node("td", {}, node("div", { class: "bar" }, ...parts)),
      node("td", { class: "number" }, size(bytesOf(row))), ...cells);
  });
  const total = data.cost.space.total;
  rows.push(node("tr", { class: "sum" }, node("td", {}, "total"), node("td", {}), node("td", { class: "number" }, size(bytesOf(total))),
    ...filled.map(column => node("td", { class: "heat" }, size(total.bytes_by_age[column])))));
  const notes = [[all.length > ROWS_MAX, "and " + (all.length - ROWS_MAX) + " smaller ones: atollctl du"],
    [data.cost.space.elsewhere_files, "Beside that, " + size(data.cost.space.elsewhere_bytes) + " are read from another database: this one is a clone."],
    [data.cost.space.held_by, "Nothing is deleted: " + data.cost.space.held_by],
    [data.cost.space.problem, "Some table files have no name: " + data.cost.space.problem]];
  show("space", table(["table", "by use", ">stored", ...filled.map(column => ">" + ages[column])], rows),
    ...notes.filter(n => n[0]).map(n => node("p", { class: "quiet" }, n[1])));
}

function drawCost(data) {
  const cost = data.cost, total = cost.space.total, currency = cost.prices.currency;
  const row = (cells, css) => node("tr", css ? { class: css } : {}, ...cells.map((c, i) => node("td", i ? { class: "number" } : {}, c)));
  const unneeded = total.unneeded_bytes + total.foreign_bytes, now = cost.stored_per_month - cost.history_per_month - cost.unneeded_per_month;
  const rows = [row(["storage: the present", size(total.live_bytes + total.shared_bytes), money(now, currency)]),
    row(["storage: only for the past", size(total.history_bytes), money(cost.history_per_month, currency)]),
    row(["storage: not needed", size(unneeded), money(cost.unneeded_per_month, currency)])];
  let sum = cost.stored_per_month;
  for (const r of cost.requests) {
    const amount = r.per_month.toLocaleString("en", { maximumFractionDigits: r.per_month < 100 ? 1 : 0 });
    rows.push(row([(r.kind.includes("GiB") ? "" : "requests: ") + r.kind, amount + " per month", money(r.money_per_month, currency)]));
    sum += r.money_per_month;
  }
  rows.push(row(["total", "", money(sum, currency)], "sum"));
  const notes = [];
  if (!cost.prices_given) notes.push("The prices are an example and no provider's: atollctl ui --prices FILE.");
  if (!cost.requests.length) notes.push("Requests are known to the server only: mariadb -Ne \"SHOW GLOBAL STATUS\" > FILE, then atollctl ui --status FILE.");
  show("cost", table(["what", ">amount", ">per month"], rows), ...notes.map(n => node("p", { class: "quiet" }, n)));
}

let last = null;

function draw() {
  if (!last) return;
  drawHead(last); drawLine(last); drawStates(last); drawSpace(last); drawCost(last);
  show("end", "Looked at " + utc(last.now_ms) + " UTC with " + count(last.requests, "request") + "; the page looks again only when it is asked to.");
}

async function look() {
  const button = document.getElementById("again");
  button.disabled = true;
  try {
    const reply = await fetch("data.json", { cache: "no-store" });
    if (!reply.ok) throw new Error(await reply.text());
    last = await reply.json();
    draw();
  } catch (error) {
    show("about", node("span", { class: "problem" }, "Not read: " + error.message));
  }
  button.disabled = false;
  document.body.dataset.state = "ready";
}

document.getElementById("again").addEventListener("click", look);
window.addEventListener("resize", draw);
look();
