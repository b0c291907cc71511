import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'vitest';
import { FLASK_RECEIVER } from '../servers/python-packages.mjs';
import { Program } from '../support/process.js';
import { expectToTakeEvents } from '../support/webhook-example.js';
import { SECRET, secretText } from '../support/webhook-receiver.js';

/** Serves the Flask application `app` on a free port. */
const SERVE = `
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, app)
print("port", server.port)
server.serve_forever()
`;

describe.runIf(FLASK_RECEIVER.areAvailable)('the webhook in Python in docs/telling-uploads.md', () => {
  it('takes events once, and refuses those that are signed with another secret', async () => {
    const [, code = ''] = /```python\n([^]*?)```/.exec(await readFile('docs/telling-uploads.md', 'utf8')) ?? [];
    const env = { ...process.env, PYTHONPATH: FLASK_RECEIVER.path, EVENTS_WEBHOOK_SECRET: secretText(SECRET) };
    // An error in the handler is answered with 500.
    await expectToTakeEvents(new Program(spawn('python3', ['-u', '-c', code + SERVE], { env })), 500);
  });
});
