import { requireSupportedNode } from './common/node-version.js';

requireSupportedNode();
const { exitOnSignal } = await import('./operations/shutdown.js');
exitOnSignal();
const { loadEnvironment } = await import('./configuration/service.js');
let dataDirectory = '';
try {
  const environment = loadEnvironment();
  ({ dataDirectory } = environment);
  // Loaded only now, because it takes most of the time of a start, and a wrong variable is reported before that.
  const { serve } = await import('./app/serve.js');
  await serve(environment);
} catch (error) {
  const { explainRefusal } = await import('./app/explain-refusal.js');
  process.stderr.write(`${explainRefusal(error, dataDirectory)}\n`);
  process.exit(1);
}
