// SPDX-License-Identifier: Apache-2.0
// The page: which view is shown, who asks, and light or dark.
import { getJson, Refused, token } from "/page/api.js";
import { $ } from "/page/dom.js";
import { drawPlots, lookAtOverview } from "/page/overview.js";
import { loadLanguages, openLink, openProgram, startPlay } from "/page/play.js";
import { lookAtRuns, startRuns } from "/page/runs.js";
import { lookAtSessions, openSession, startSessions } from "/page/sessions.js";

const STEP_MS = 2000;
let timer = 0, declined = false;

// What each view asks the daemon for, again and again while it is shown.
const VIEWS = { play: () => getJson("/v1/version"), sessions: lookAtSessions, runs: () => lookAtRuns(say), overview: lookAtOverview };
const viewOf = (hash) => { const name = hash.slice(1).split(/[/=]/)[0]; return VIEWS[name] ? name : "play"; };

function health(text, how) {
  $("health").textContent = text;
  $("health").className = `pill ${how}`;
}

function say(error) {
  if (error instanceof Refused && error.status === 401) {
    health("token wanted", "warn");
    if (!$("ask").open && !declined) askToken(token.get() ? error.message : "");
  } else if (error instanceof Refused && error.status === 403) health("not allowed", "warn");
  else if (error instanceof Refused) {
    $("trouble").textContent = `${error.message}${error.remedy ? ` (${error.remedy})` : ""}`;
    setTimeout(() => { $("trouble").textContent = ""; }, 8000);
  } else health("unreachable", "bad");
}

function askToken(why) {
  $("ask-error").textContent = why;
  $("token").value = "";
  $("ask").showModal();
  $("token").focus();
}

// One look at what is shown; the next one comes when this is done.
async function look() {
  clearTimeout(timer);
  try {
    await VIEWS[viewOf(location.hash)]();
    health("ready", "good");
  } catch (error) { say(error); }
  if (!$("ask").open && !document.hidden) timer = setTimeout(look, STEP_MS);
}

async function meet() {
  try {
    const about = await getJson("/v1/version");
    $("version").textContent = `${about.version} · ${about.caller}`;
    await loadLanguages();
    if (location.hash.startsWith("#play=")) openLink(location.hash);
  } catch (error) { say(error); }
}

function show() {
  const name = viewOf(location.hash);
  for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== (name === "runs" ? "runs-page" : name);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (name === "sessions") openSession(location.hash.split("/")[1] || null);
  if (location.hash.startsWith("#play=") && $("language").options.length) openLink(location.hash);
  look();
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  try { if (name) localStorage.setItem("vial-theme", name); } catch { /* private */ }
}

function again(program) {
  location.hash = "play";
  openProgram(program);
}

async function start() {
  try { setTheme(localStorage.getItem("vial-theme")); } catch { /* private */ }
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
  });
  $("key").addEventListener("click", () => askToken(""));
  $("ask-form").addEventListener("submit", () => { token.set($("token").value.trim()); declined = false; setTimeout(() => { meet(); look(); }); });
  $("ask").addEventListener("cancel", () => { declined = true; });
  for (const b of document.querySelectorAll("[data-close]")) b.addEventListener("click", () => { if (b.closest("dialog") === $("ask")) declined = true; b.closest("dialog").close(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  addEventListener("hashchange", show);
  new ResizeObserver(drawPlots).observe($("throughput"));
  startRuns(say, again);
  await Promise.all([startPlay(look, say), startSessions(say)]);
  await meet();
  show();
}

start();
