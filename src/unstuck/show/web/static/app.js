// The page: one stream of events from the server, one canvas for all ranks, panels around it.
import { html, render, useState, useEffect, useRef } from "./vendor/htm-preact.js";
import { Grid, STATES, NAME, expand, layoutOf } from "./grid.js";
import { ask, duration, Verdict, Rank, Stacks, Time, Incidents, Knowledge } from "./panels.js";

const TABS = [["ranks", "Ranks"], ["stacks", "Stacks"], ["time", "Time"], ["record", "Record"], ["knowledge", "Knowledge"]];
const MOST_POINTS = 900;

// What was measured, for whoever wants to know: verdict to pixels, cost of an update.
window.unstuck = { updates: 0, took: 0, verdictShown: 0 };

function useJob() {
  const [shown, setShown] = useState({ job: null, layout: null, lost: false });
  const points = useRef([]);
  useEffect(() => {
    let layout = null, source = null, timer = 0;
    ask("past").then((past) => {
      document.title = `unstuck: ${past.name}`;
      points.current = [...past.points, ...points.current];
      setShown((old) => ({ ...old, name: past.name, path: past.path }));
    }, () => {});
    ask("/runs").then((runs) => setShown((old) => ({ ...old, runs })), () => {});
    const open = () => {
      source = new EventSource("events");
      source.addEventListener("layout", (event) => { layout = layoutOf(JSON.parse(event.data)); });
      source.addEventListener("job", (event) => {
        const began = performance.now(), job = JSON.parse(event.data);
        if (!layout) return;
        job.letters = expand(job.states, layout.count);
        if (job.point) points.current = [...points.current.filter((p) => p[0] < job.point[0]), job.point].slice(-MOST_POINTS);
        window.unstuck.parsed = performance.now() - began;
        setShown((old) => ({ ...old, job, layout, lost: false }));
      });
      source.onerror = () => {
        setShown((old) => ({ ...old, lost: true }));
        // A server that was restarted has a stream of its own: begin anew.
        if (source.readyState === EventSource.CLOSED) { clearTimeout(timer); timer = setTimeout(open, 1000); }
      };
    };
    open();
    return () => { source.close(); clearTimeout(timer); };
  }, []);
  return [shown, points.current];
}

function stateOf(job, lost) {
  if (lost || (job.live && !job.connected)) return ["away", job.live && !lost ? "hub away" : "not connected"];
  if (!job.live) return job.verdict ? ["stalled", "stored incident"] : ["away", "stored"];
  if (job.verdict) return job.verdict.slowdown ? ["slow", "slow"] : ["stalled", "stalled"];
  if (job.counts.starting * 2 > job.world) return ["starting", "starting"];
  return job.paused ? ["away", "paused"] : ["", "running"];
}

function Header({ shown, points, tab, setTab }) {
  const { job, name, lost } = shown, [kind, text] = stateOf(job, lost);
  const speed = points.length ? points[points.length - 1][2] || 0 : 0;
  const chosen = location.pathname.split("/")[2];
  return html`<header>${shown.runs && shown.runs.length > 1
      ? html`<select aria-label="run" value=${chosen} onChange=${(event) => { location.href = `/r/${event.target.value}/`; }}>${shown.runs.map((one, n) => html`<option value=${n}>${one.name}</option>`)}</select>`
      : html`<h1>${name || "unstuck"}</h1>`}<span class="state ${kind}" id="state">${text}</span>
    <span class="num"><b>${job.world.toLocaleString("en")}</b> ranks</span>
    <span class="num">step <b>${job.step.toLocaleString("en")}</b></span>
    ${job.live && html`<span class="num"><b>${speed < 10 ? speed.toFixed(2) : speed.toFixed(0)}</b> steps/s</span>`}
    ${job.time.step > 0 && html`<span class="num"><b>${Math.round(100 * Math.max(0, 1 - job.time.own / job.time.step))} %</b> waiting</span>`}
    ${job.attempt > 0 && html`<span class="num">attempt <b>${job.attempt + 1}</b></span>`}
    <nav role="tablist">${TABS.map(([id, title], n) => html`<button role="tab" aria-selected=${tab === id} title="key ${n + 1}" onClick=${() => setTab(id)}>${title}</button>`)}</nav></header>`;
}

function filterOf(job, layout, { picked, host, group }) {
  if (!picked.size && !host && !group) return null;
  const codes = new Set([...picked].filter((one) => one !== "!").map((one) => one.charCodeAt(0)));
  const culprits = picked.has("!") ? new Set(job.culprits) : null;
  const hosts = host && layout.hosts.map(([name]) => name.toLowerCase().includes(host.toLowerCase()));
  const members = group && membersOf(group);
  return (n) => (!picked.size || codes.has(job.letters[n]) || (culprits && culprits.has(layout.ranks[n])))
    && (!hosts || hosts[layout.host[n]]) && (!members || members(layout.ranks[n]));
}

// Reads "0-3,7" and "0-511 except 17"; of a list that was cut short only the beginning is known.
function membersOf(text) {
  const [list, except] = text.split(" except ");
  const read = (part) => part.split(",").filter((one) => /^\d/.test(one)).map((one) => one.split("-").map(Number));
  const inside = read(list), outside = except ? read(except) : [];
  const has = (spans, rank) => spans.some(([first, last]) => rank >= first && rank <= (last ?? first));
  return (rank) => has(inside, rank) && !has(outside, rank);
}

function Ranks({ job, layout, onRank }) {
  const canvas = useRef(null), grid = useRef(null);
  const [tip, setTip] = useState(null), [picked, setPicked] = useState(new Set());
  const [host, setHost] = useState(""), [group, setGroup] = useState("");
  useEffect(() => {
    grid.current = new Grid(canvas.current);
    const again = () => { grid.current.resize(); grid.current.draw(); };
    window.addEventListener("resize", again);
    return () => window.removeEventListener("resize", again);
  }, []);
  useEffect(() => {
    grid.current.show(layout, job.letters, job.culprits, filterOf(job, layout, { picked, host, group }));
    window.unstuck.updates += 1;
    window.unstuck.took = grid.current.took;
  }, [job, layout, picked, host, group]);
  const toggle = (letter) => { const next = new Set(picked); next.delete(letter) || next.add(letter); setPicked(next); };
  const hover = (event) => {
    const n = grid.current.at(event);
    if (n < 0) return setTip(null);
    const box = canvas.current.getBoundingClientRect(), x = event.clientX - box.left;
    const name = layout.hosts[layout.host[n]][0] || "never seen";
    const text = `rank ${layout.ranks[n]} on ${name}: ${NAME[String.fromCharCode(job.letters[n])]}`;
    setTip({ text, x: Math.min(x + 14, box.width - 8 * text.length), y: event.clientY - box.top + 16 });
  };
  const click = (event) => { const n = grid.current.at(event); if (n >= 0) onRank(layout.ranks[n]); };
  return html`<section class="card" id="ranks"><div class="legend">
    ${STATES.filter(([, state]) => job.counts[state]).map(([letter, state, text]) => html`<button class="chip" aria-pressed=${picked.has(letter)} onClick=${() => toggle(letter)} title="show only these">
      <i class="s-${state}"></i>${job.counts[state].toLocaleString("en")} ${text}</button>`)}
    ${job.culprits.length > 0 && html`<button class="chip culprits" aria-pressed=${picked.has("!")} onClick=${() => toggle("!")}><i></i>held responsible</button>`}
    <input placeholder="host" value=${host} aria-label="only hosts whose name contains" onInput=${(event) => setHost(event.target.value)} />
    ${job.groups.length > 1 && html`<select aria-label="only members of a group" value=${group} onChange=${(event) => setGroup(event.target.value)}><option value="">all groups</option>
      ${job.groups.map((one) => html`<option value=${one.members}>${one.text} (${one.size})</option>`)}</select>`}</div>
    <div class="grid"><canvas ref=${canvas} role="img" aria-label="all ranks by host" onMouseMove=${hover} onMouseLeave=${() => setTip(null)} onClick=${click}></canvas>
    ${tip && html`<div class="tip" style=${{ left: `${tip.x}px`, top: `${tip.y}px` }}>${tip.text}</div>`}</div>
    ${job.hosts.length > 0 && html`<p class="small">${job.hosts.slice(0, 8).map(([index, life, seconds]) => html`<span class="root">${layout.hosts[index][0]}: ${life}${seconds ? `, ${duration(seconds)}` : ""} </span>`)}</p>`}</section>`;
}

function App() {
  const [shown, points] = useJob();
  const [tab, setTab] = useState("ranks"), [rank, setRank] = useState(null);
  useEffect(() => {
    const key = (event) => {
      if (event.key === "Escape") return setRank(null);
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
      const found = TABS[Number(event.key) - 1];
      if (found) setTab(found[0]);
      if (event.key === "v") document.getElementById("verdict")?.scrollIntoView();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);
  const { job, layout } = shown, verdict = job && job.verdict;
  useEffect(() => {
    if (verdict) requestAnimationFrame(() => { window.unstuck.verdictShown ||= Date.now(); });
  }, [verdict && verdict.made_at]);
  if (!job) return html`<p class="loading">${shown.lost ? "The job's page is not reachable. It ends with the job; its incidents stay in the run directory." : "Connecting to the job …"}</p>`;
  const tick = `${job.verdict ? job.verdict.made_at : ""}${job.connected}${job.live ? Math.floor(job.at / 2) : ""}`;
  return html`<${Header} shown=${shown} points=${points} tab=${tab} setTab=${setTab} /><main>
    ${verdict && html`<${Verdict} job=${job} onRank=${setRank} brief=${tab !== "ranks"} />`}
    ${job.notices.map((text) => html`<p class="notice">${text}</p>`)}
    ${tab === "ranks" && html`<${Ranks} job=${job} layout=${layout} onRank=${setRank} />`}
    ${tab === "ranks" && !verdict && job.live && job.time.measured > 0 && html`<${Time} job=${job} points=${points} onRank=${setRank} />`}
    ${tab === "stacks" && html`<${Stacks} job=${job} tick=${tick} />`}
    ${tab === "time" && html`<${Time} job=${job} points=${points} onRank=${setRank} />`}
    ${tab === "record" && html`<${Incidents} job=${job} />`}
    ${tab === "knowledge" && html`<${Knowledge} />`}</main>
    ${rank !== null && html`<${Rank} rank=${rank} tick=${tick} onClose=${() => setRank(null)} />`}`;
}

render(html`<${App} />`, document.getElementById("app"));
