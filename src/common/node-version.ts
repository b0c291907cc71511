const OLDEST = { major: 20, minor: 19 };

/**
 * Ends the process with one line on standard error and exit code 1 if Node is older than 20.19. The service's other
 * modules don't load in an older Node, so this function must be called before any of them is imported.
 */
export function requireSupportedNode(version = process.versions.node): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST.major || (major === OLDEST.major && minor >= OLDEST.minor)) return;
  process.stderr.write(`load-data-service needs Node ${OLDEST.major}.${OLDEST.minor} or newer, and this is Node ${version}: install Node 24, for example with nvm install 24\n`);
  process.exit(1);
}
