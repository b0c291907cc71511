import { existsSync } from 'node:fs';
import { installOpenApiTools, toolPath } from '../clients/tools.mjs';

const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium';

export const isChromiumAvailable = () => existsSync(EXECUTABLE);

/** Starts a headless Chromium from the path where Debian installs it. */
export async function startChromium() {
  await installOpenApiTools();
  const { chromium } = await import(toolPath('playwright-core', 'index.mjs'));
  // Chromium's sandbox is switched off for root, for whom it doesn't work.
  return chromium.launch({ executablePath: EXECUTABLE, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
}
