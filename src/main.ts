import { explainRefusal } from './app/explain-refusal.js';
import { loadEnvironment } from './configuration/service.js';
import { exitOnSignal } from './operations/shutdown.js';

exitOnSignal();
let dataDirectory = '';
try {
  const environment = loadEnvironment();
  ({ dataDirectory } = environment);
  // Loaded only now, because it takes most of the time of a start, and a wrong variable is reported before that.
  const { serve } = await import('./app/serve.js');
  await serve(environment);
} catch (error) {
  process.stderr.write(`${explainRefusal(error, dataDirectory)}\n`);
  process.exit(1);
}
