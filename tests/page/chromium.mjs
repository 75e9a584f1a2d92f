// SPDX-License-Identifier: Apache-2.0
// The system's Chromium, with a profile of its own.
import { chromium } from "playwright-core";

export const browse = (profile) => chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true, chromiumSandbox: false, timeout: 120000,
  viewport: { width: 1280, height: 900 }, colorScheme: "light", deviceScaleFactor: 1,
  args: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run"],
});
