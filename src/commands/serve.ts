import { commandArguments, runCommand } from './command.js';
import { explainRefusal } from '../app/explain-refusal.js';
import { loadEnvironmentWithAdapters } from '../app/load-environment.js';
import { readVariables } from '../configuration/variables.js';

const HELP = `load-data-service [serve]

Serves on HOST and PORT until SIGTERM or SIGINT. Prints one line with its URL when it is ready. Without settings, it
listens on http://127.0.0.1:3000, keeps all data in ./data, and needs no other server.

  --help  this text

Examples:
  npx load-data-service
  PORT=8080 DATA_DIR=/var/lib/load-data UV_THREADPOOL_SIZE=16 npx load-data-service serve

Exit code: 0 stopped by a signal, 1 refused to start, 2 wrong usage.
`;

async function main(): Promise<number> {
  if (!commandArguments({ help: HELP }, (values) => values)) return 0;
  let dataDirectory = '';
  try {
    const environment = await loadEnvironmentWithAdapters(readVariables());
    ({ dataDirectory } = environment);
    // The application's modules are imported after the variables are checked, because importing them takes most of the
    // time of a start: so an invalid variable is reported sooner.
    const [{ createAppFor }, { serve }] = await Promise.all([import('../app/create-app.js'), import('../app/serve.js')]);
    await serve(await createAppFor(environment));
    return 0;
  } catch (error) {
    process.stderr.write(`${explainRefusal(error, dataDirectory)}\n`);
    process.exit(1);
  }
}

await runCommand(main, 1, 2);
