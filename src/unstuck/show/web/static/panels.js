// What stands beside the grid: verdict, one rank, stacks, time, settings, knowledge.
// Everything is text to preact, so nothing that a log or a host says can become markup.
import { html, useState, useEffect, useRef } from "./vendor/htm-preact.js";
import { NAME, LETTER } from "./grid.js";

export async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.headers.get("content-type").includes("json") ? answer.json() : answer.text();
}

export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "";
  if (seconds < 0.0995) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
const clock = (iso) => (iso || "").slice(11, 19);
const percent = (share) => `${Math.round((share || 0) * 100)} %`;

function coded(text) {
  return text.split("`").map((piece, n) => (n % 2 ? html`<code>${piece}</code>` : piece));
}

// Asks again when `key` changes, and keeps the old answer meanwhile: no layout jumps.
function useAnswer(path, key) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let live = true;
    if (path) ask(path).then((found) => live && setAnswer(found), () => live && setAnswer(null));
    return () => { live = false; };
  }, [path, key]);
  return answer;
}

export function Verdict({ job, onRank, brief }) {
  const verdict = job.verdict;
  const [copied, setCopied] = useState("");
  const key = `${verdict.made_at}${verdict.cause}`;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await ask("markdown"));
      setCopied("copied");
    } catch { setCopied("could not copy"); }
    setTimeout(() => setCopied(""), 2000);
  };
  const newest = (job.incidents || []).find((one) => one.report && one.cause === verdict.cause);
  return html`<section class="card verdict ${verdict.slowdown ? "slow" : ""}" aria-live="polite" id="verdict">
    <div class="row"><span class="cause">${verdict.cause}</span><span class="sure">${verdict.confidence}</span>
      <span class="soft">${verdict.step ? `step ${verdict.step}, ` : ""}${clock(verdict.made_at)} UTC</span>
      <span class="end"><button class="button" onClick=${copy}>${copied || "Copy as Markdown"}</button>
      ${newest && html`<a class="button" href="${newest.name}/report.html" target="_blank">Report</a>`}</span></div>
    <h2>${verdict.summary}</h2>
    ${!brief && html`<p class="soft">${verdict.because}</p>
    ${verdict.culprits.slice(0, 3).filter((one) => one.file).map((one) => html`<div class="line">
      <b>rank ${one.rank} ${one.doing}, ${one.file}:${one.line} in ${one.function || "?"}</b>
      <span class="soft"> (${one.host}${one.pid ? `, pid ${one.pid}` : ""}) </span>
      <button class="button small" onClick=${() => onRank(one.rank)}>Look at rank ${one.rank}</button>
      <div><code>${one.code}</code></div></div>`)}
    <div class="two">
      <div class="do"><h3>Do</h3><ol>${verdict.do.map((one) => html`<li>${coded(one)}</li>`)}</ol></div>
      <div class="dont"><h3>Do not</h3><ul>${verdict.dont.map((one) => html`<li>${coded(one.replace(/^do not /, ""))}</li>`)}</ul></div>
    </div>
    <div class="chain"><img alt="who waits for whom" src="waiting.svg?${encodeURIComponent(key)}" /></div>
    <details><summary>Evidence${verdict.alternatives.length ? ", and what else it could be" : ""}</summary>
      <table><tr><th>shows</th><th>source</th><th>observation</th></tr>
      ${verdict.evidence.map((one) => html`<tr><td class=${one.role === "root" ? "root" : "soft"}>${one.role}</td><td>${one.source}</td><td>${one.text}</td></tr>`)}</table>
      ${verdict.alternatives.map((one) => html`<p><b>${one.cause}</b>: ${coded(one.decide_by)}</p>`)}
    </details>`}</section>`;
}

function Frames({ stack }) {
  return html`<pre>${stack.map((one) => `${one.user ? ">" : " "} ${one.file}:${one.line} in ${one.function}${one.text ? `\n      ${one.text.trim()}` : ""}`).join("\n")}</pre>`;
}

function operation(one) {
  if (!one) return "not begun, as far as its recorder shows";
  const sizes = (one.sizes || []).slice(0, 3).map((size) => size.join("x") || "1").join(" ");
  return `${one.op.split(":").pop()} ${sizes} ${(one.dtypes || []).join("/").toLowerCase()}, ${one.done ? "completed" : `in flight for ${duration(one.age || 0)}`}`;
}

export function Rank({ rank, tick, onClose }) {
  const found = useAnswer(`rank/${rank}`, tick);
  const box = useRef(null);
  useEffect(() => { box.current && box.current.focus(); }, [rank]);
  const process = found && found.process;
  const fact = (name, value) => value !== undefined && value !== "" && value !== null && html`<div><span>${name}</span><b>${value}</b></div>`;
  return html`<aside ref=${box} tabindex="-1" aria-label="rank ${rank}" id="rank">
    <div class="row"><h2>Rank ${rank}</h2><span class="end"><button class="button" onClick=${onClose}>Close (Esc)</button></span></div>
    ${!found ? html`<p class="soft">…</p>` : html`
    <p><b>rank ${rank} ${found.doing}</b> <span class="soft">${NAME[LETTER[found.state]]}</span></p>
    ${found.stack && found.stack.filter((one) => one.user).slice(0, 1).map((one) => html`<div class="line"><b>${one.file}:${one.line} in ${one.function}</b><div><code>${one.text}</code></div></div>`)}
    <div class="facts">${fact("host", found.host)}${fact("pid", found.pid)}${fact("step", found.step)}
      ${fact("no progress for", duration(found.stalled_for))}${fact("section", (found.sections || []).join(", "))}
      ${process && fact("process", process.state)}${process && fact("sleeps in", process.waits_in)}
      ${process && fact("CPU of the main thread", percent(process.cpu))}
      ${process && fact("memory", process.rss ? `${(process.rss / 2 ** 30).toFixed(1)} GiB` : "")}
      ${found.tempo && fact("a step", found.tempo.step ? duration(found.tempo.step) : "")}
      ${found.tempo && fact("of it own time", found.tempo.own ? duration(found.tempo.own) : "")}
      ${found.pressure && fact("host waits for CPU, disk, memory", [found.pressure.cpu, found.pressure.io, found.pressure.memory].map(percent).join(", "))}
      ${fact("not observed", found.unobserved)}</div>
    ${found.failure && html`<h3>The exception that ended it</h3><pre>${found.failure.type}: ${found.failure.message}</pre>`}
    ${(found.groups || []).slice(0, 6).map((group) => html`<h3>${group.text}: ${group.size} ranks, ${group.backend}</h3>
      <p class="soft">has begun ${group.enqueued}, completed ${group.completed}${group.their_enqueued === undefined ? "" : `; rank ${found.healthy} has begun ${group.their_enqueued}`}</p>
      ${(group.operations || []).length > 0 && html`<table><tr><th>number</th><th>rank ${rank}</th><th>rank ${found.healthy}</th></tr>
      ${group.operations.map((one) => html`<tr class=${!!one.mine !== !!one.theirs || (one.mine && one.theirs && (one.mine.op !== one.theirs.op || !one.mine.done !== !one.theirs.done)) ? "differs" : ""}>
        <td class="soft">#${one.number}</td><td>${operation(one.mine)}</td><td>${operation(one.theirs)}</td></tr>`)}</table>`}`)}
    ${found.stack && html`<h3>Main thread, innermost first</h3><${Frames} stack=${found.stack} />`}
    ${found.healthy_stack && html`<details><summary>main thread of rank ${found.healthy}, for comparison</summary><${Frames} stack=${found.healthy_stack} /></details>`}
    ${found.threads && html`<details><summary>all threads</summary><pre>${found.threads.join("\n\n")}</pre></details>`}`}
  </aside>`;
}

function Node({ node, world }) {
  const few = node.count * 8 <= world || (world < 8 && node.count < world / 2);
  const lib = !node.user && node.function !== "<module>";
  return html`<li class="${few ? "few" : ""} ${lib ? "lib" : ""}"><div class="frame"><span class="fn">${node.function}</span>
    <span class="at"> ${node.file.split("/").pop()}:${node.line}</span> ${node.user && node.text && html`<code>${node.text}</code>`}
    <span class="who">${node.count}: ${/^\d+$/.test(node.ranks) ? "rank" : "ranks"} ${node.ranks}</span></div>
    ${node.calls && html`<ul>${node.calls.map((one) => html`<${Node} node=${one} world=${world} />`)}</ul>`}</li>`;
}

export function Stacks({ job, tick }) {
  const tree = useAnswer("stacks", tick);
  if (!tree) return html`<section class="card"><p class="soft">…</p></section>`;
  return html`<section class="card" id="stacks"><h2>Where all ranks are: their stacks merged</h2>
    <ul class="tree">${(tree.roots || []).map((one) => html`<${Node} node=${one} world=${job.world} />`)}</ul>
    ${tree.inferred && html`<p class="soft small">the outermost frames of ${tree.inferred} ranks are taken from a rank in the same function</p>`}
    ${tree.unknown && html`<p class="soft small">no stack is known of ${tree.unknown}</p>`}</section>`;
}

const SPENT = { work: "computing", "waiting for others": "collective", "waiting for a straggler": "slow", stalled: "stopped", starting: "starting", "in sections": "section", "not measured": "done" };

function Chart({ points }) {
  const box = useRef(null), plot = useRef(null);
  const data = [points.map((p) => p[0]), points.map((p) => p[2]), points.map((p) => p[3] * 100)];
  useEffect(() => {
    const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--soft").trim();
    const axis = { stroke: ink, grid: { stroke: style.getPropertyValue("--line").trim() } };
    plot.current = new window.uPlot({
      width: box.current.clientWidth, height: 230,
      scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 0.1)] }, share: { range: [0, 100] } },
      axes: [axis, { ...axis, label: "steps per second" }, { ...axis, scale: "share", side: 1, label: "% waiting", grid: { show: false } }],
      series: [{}, { label: "steps per second", stroke: style.getPropertyValue("--good").trim(), width: 2 },
        { label: "% of a step spent waiting", scale: "share", stroke: style.getPropertyValue("--accent").trim(), dash: [5, 4] }],
    }, data, box.current);
    return () => plot.current.destroy();
  }, []);
  useEffect(() => { plot.current && plot.current.setData(data); });
  return html`<div ref=${box}></div>`;
}

export function Time({ job, points, onRank }) {
  const { time, spent } = job, total = Object.values(spent).reduce((a, b) => a + b, 0);
  const most = Math.max(...time.slowest.map((one) => Math.max(one.step, one.own)), 1e-9);
  return html`<section class="card" id="time"><h2>Steps per second, and the share of a step spent waiting</h2>
    ${points.length > 1 ? html`<${Chart} points=${points} />` : html`<p class="soft">there is nothing to draw yet</p>`}</section>
  ${total > 0 && html`<section class="card"><h2>Where the time went, in the ${duration(total)} this page has watched</h2>
    <div class="bar spent">${Object.entries(spent).map(([what, seconds]) => html`<i class="s-${SPENT[what]}" style=${{ width: `${(100 * seconds) / total}%` }} title="${what}"></i>`)}</div>
    <div class="legend">${Object.entries(spent).map(([what, seconds]) => html`<span class="chip"><i class="s-${SPENT[what]}"></i>${what}: ${duration(seconds)} (${percent(seconds / total)})</span>`)}</div></section>`}
  <section class="card"><h2>A ${time.unit || "step"} takes ${duration(time.step)}; the typical rank needs ${duration(time.own)} of it itself</h2>
    ${!time.measured ? html`<p class="soft">too few steps were seen yet</p>` : html`<p class="soft small">the ranks that need most time of their own; the others wait for the first</p>
    <table><tr><th>rank</th><th>host</th><th class="n">own time</th><th class="n">waiting</th><th></th></tr>
    ${time.slowest.map((one) => html`<tr class="go" onClick=${() => onRank(one.rank)}><td class="w"><a href="#rank=${one.rank}">rank ${one.rank}</a></td><td>${one.host}</td>
      <td class="n">${duration(one.own)}</td><td class="n">${duration(Math.max(0, one.step - one.own))}</td>
      <td><div class="bar"><i class="own" style=${{ width: `${(100 * one.own) / most}%` }}></i><i class="wait" style=${{ width: `${(100 * Math.max(0, one.step - one.own)) / most}%` }}></i></div></td></tr>`)}</table>`}</section>`;
}

export function Incidents({ job }) {
  const settings = useAnswer("settings", `${job.incidents.length}${job.attempt}`);
  return html`<section class="card" id="incidents"><h2>Incidents</h2>${job.incidents.length ? html`<table>
    ${job.incidents.map((one) => html`<tr><td class="w">${one.report ? html`<a href="${one.name}/report.html" target="_blank">${one.name}</a>` : one.name}</td>
      <td class="w soft">${clock(one.made_at)}</td><td class="w"><b>${one.cause}</b></td><td>${one.summary}</td></tr>`)}</table>` : html`<p class="soft">none so far</p>`}</section>
  ${settings && html`<section class="card"><h2>What unstuck did (the ledger)</h2>${settings.ledger.length ? html`<table>
    ${settings.ledger.slice(0, 60).map((one) => html`<tr><td class="w soft">${clock(one.at)}</td><td class="w"><b>${one.act}</b></td><td class="w">${one.cause || ""}</td><td>${one.summary || ""}</td></tr>`)}</table>` : html`<p class="soft">nothing yet</p>`}</section>
  <section class="card"><h2>Process groups</h2><table><tr><th>group</th><th>backend</th><th>ranks</th><th class="n">size</th><th class="n">begun, least</th><th class="n">most</th><th class="n">completed</th><th class="n">timeout</th></tr>
    ${job.groups.map((one) => html`<tr><td>${one.text}</td><td>${one.backend}</td><td>${one.members}</td><td class="n">${one.size}</td><td class="n">${one.least}</td><td class="n">${one.most}</td><td class="n">${one.completed}</td><td class="n">${one.timeout ? duration(one.timeout) : ""}</td></tr>`)}</table></section>
  ${settings.timeouts && html`<section class="card"><h2>Timeouts in force</h2><table><tr><th>timeout</th><th>layer</th><th class="n">value</th><th>set by</th><th>about</th></tr>
    ${settings.timeouts.knobs.map((one) => html`<tr><td>${one.name}</td><td>${one.layer}</td><td class="n">${one.seconds ? duration(one.seconds) : one.value}</td><td>${one.origin || "default"}</td><td>${one.about}</td></tr>`)}</table></section>`}`}`;
}

export function Knowledge() {
  const [query, setQuery] = useState(""), [lang, setLang] = useState("en");
  const [asked, setAsked] = useState("");
  useEffect(() => { const timer = setTimeout(() => setAsked(query), 250); return () => clearTimeout(timer); }, [query]);
  const found = useAnswer(asked && `knowledge?q=${encodeURIComponent(asked)}&lang=${lang}`, lang);
  return html`<section class="card" id="knowledge"><h2>What a message means</h2>
    <div class="row"><input size="60" placeholder="barrier timeout, or a line from a log" value=${query} aria-label="search the knowledge base" onInput=${(event) => setQuery(event.target.value)} />
    <select value=${lang} aria-label="language" onChange=${(event) => setLang(event.target.value)}><option value="en">English</option><option value="zh">中文</option></select></div>
    ${asked && found && !found.length && html`<p class="soft">no record matches</p>`}
    ${asked && (found || []).map((one) => html`<details class="record"><summary><b>${one.title}</b> <span class="soft small">${one.id}, ${one.tier}</span></summary>
      <pre>${one.signature}</pre><p>${one.why}</p>
      ${one.causes.map(([cause, how]) => html`<p><b>${cause}</b>: ${how}</p>`)}
      <div class="two"><div class="do"><h3>${lang === "zh" ? "可以做" : "Do"}</h3><ol>${one.do.map(([what, how]) => html`<li>${what}: ${coded(how)}</li>`)}</ol></div>
      <div class="dont"><h3>${lang === "zh" ? "不要做" : "Do not"}</h3><ul>${one.dont.map(([what, why]) => html`<li>${what}: ${coded(why)}</li>`)}</ul></div></div>
      ${one.sources.map((link) => html`<p class="small"><a href=${link} rel="noreferrer" target="_blank">${link}</a></p>`)}</details>`)}</section>`;
}
