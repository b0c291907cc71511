import { PassThrough } from 'node:stream';
import { inspect } from 'node:util';
import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';
import { describe, expect, it } from 'vitest';
import { LogEntry, SUBJECT } from '../http/exchange.js';
import { LOG_SERIALIZERS, PRETTY } from './log-format.js';
import { type LogOptions, PinoLoggerService } from './logging.js';

function logged(write: (logger: PinoLoggerService) => void, of: (logger: Logger) => PinoLoggerService = (logger) => new PinoLoggerService(logger)): Record<string, unknown>[] {
  const stream = new PassThrough();
  write(of(pino({ base: null, serializers: LOG_SERIALIZERS }, stream)));
  return String(stream.read(stream.readableLength) ?? '').split('\n').filter(Boolean).map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('the log', () => {
  it('contains the message, code, stack and causes of an error, and none of its other properties', () => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', headers: { authorization: 'Bearer secret' } });
    const error = Object.assign(new Error('failed', { cause }), { body: 'secret', config: { token: 'secret' } });
    const [line] = logged((logger) => {
      logger.error({ msg: 'failed', err: error });
    });
    expect(line).toMatchObject({ level: 50, msg: 'failed', err: { type: 'Error', message: 'failed', cause: { message: 'refused', code: 'ECONNREFUSED' } } });
    expect(JSON.stringify(line)).not.toContain('secret');
  });

  it.each<[LogOptions, object]>([
    [{}, {}],
    [{ customers: true }, { customerId: 'household-7' }],
    [{ subjects: true }, { subject: 'user-7' }],
    [{ customers: true, subjects: true }, { customerId: 'household-7', subject: 'user-7' }],
  ])('with %j has of the customer and sender of a request: %j', (options, expected) => {
    const entry = new LogEntry({ msg: 'request', status: 200 }, { customerId: 'household-7', request: { [SUBJECT]: 'user-7' } });
    const [line] = logged((logger) => { logger.log(entry); }, (logger) => new PinoLoggerService(logger, options));
    const { customerId, subject } = line as { customerId?: string; subject?: string };
    expect({ customerId, subject }).toEqual({ customerId: undefined, subject: undefined, ...expected });
    expect(inspect(Object.assign({}, entry), { showHidden: true })).not.toMatch(/-7/);
  });

  it('contains only the type of a thrown value that is not an error', () => {
    const [line] = logged((logger) => {
      logger.error({ msg: 'failed', err: 'secret' });
    });
    expect(line).toMatchObject({ err: { type: 'string' } });
  });

  it('omits the customer in paths, and quotes no text that is not JSON', () => {
    const cause = Object.assign(new Error("ENOSPC: no space left on device, open '/data/files/kind=nowcast/customer_id=secret/x'"), { code: 'ENOSPC' });
    const quoting = new SyntaxError('Unexpected token, "secret"... is not valid JSON', { cause });
    const lines = logged((logger) => {
      logger.warn('Moving /data/files/customer_id=secret%2F/date=2026-01-01/x failed', cause, 'Store');
      logger.error(quoting);
      logger.error({ msg: 'failed', err: new Error('blob customer_id%3Dsecret', { cause: quoting }) });
    });
    expect(JSON.stringify(lines)).not.toContain('secret');
    expect(lines).toMatchObject([
      { level: 40, context: 'Store', msg: 'Moving /data/files/customer_id=***/date=2026-01-01/x failed', err: { code: 'ENOSPC' } },
      { err: { type: 'SyntaxError', cause: { code: 'ENOSPC' } } },
      { msg: 'failed', err: { cause: { type: 'SyntaxError' } } },
    ]);
  });

  it.each([
    ['log', 30],
    ['warn', 40],
    ['error', 50],
    ['fatal', 60],
  ] as const)('writes %s as level %i, with its context', (method, level) => {
    expect(logged((logger) => { logger[method]('text', 'Context'); })).toMatchObject([{ level, msg: 'text', context: 'Context' }]);
  });

  it('with LOG_SAMPLE logs one in this many successful requests, and all other lines', () => {
    const write = (logger: PinoLoggerService): void => {
      for (let requestId = 0; requestId < 6; requestId++) {
        logger.log({ msg: 'request', requestId, status: 200 });
        logger.log({ msg: 'request', requestId, status: 403, kind: 'unauthorized' });
        logger.log({ msg: 'request', requestId, status: 503 });
        logger.log({ msg: 'request', requestId, status: 200, aborted: true });
      }
      logger.log({ msg: 'stopping' });
      logger.log('text');
      logger.warn({ msg: 'request', status: 200 });
    };
    const lines = logged(write, (logger) => new PinoLoggerService(logger, { every: 3 }));
    expect(lines.filter(({ level, status, aborted }) => level === 30 && status === 200 && aborted === undefined).map(({ requestId }) => requestId)).toEqual([0, 3]);
    expect(lines).toHaveLength(2 + 6 + 6 + 6 + 3);
  });

  it("omits Nest's boot messages by default", () => {
    expect(logged((logger) => { logger.log('Mapped {/x, GET} route', 'RouterExplorer'); })).toEqual([]);
  });
});

describe('the log on a terminal', () => {
  const shown = (entry: object): string => {
    const format = pretty.prettyFactory({ ...PRETTY, colorize: false, translateTime: 'UTC:HH:MM' });
    return format({ level: 30, time: 0, ...entry });
  };
  const REQUEST = { context: 'Http', msg: 'request', requestId: 'abc-1', method: 'POST', path: '/a/b', ms: 3.1 };

  it.each([
    ['an answer', { ...REQUEST, status: 200 }, 'INFO: POST /a/b 200 3.1 ms abc-1'],
    ['a refusal', { ...REQUEST, status: 400, kind: 'invalid-role', reason: 'role_name is taken' }, 'INFO: POST /a/b 400 3.1 ms invalid-role: role_name is taken abc-1'],
    ['a reason that only repeats the kind', { ...REQUEST, status: 404, kind: 'not-found', reason: 'not-found' }, 'INFO: POST /a/b 404 3.1 ms not-found abc-1'],
    ['an aborted request', { ...REQUEST, aborted: true }, 'INFO: POST /a/b aborted 3.1 ms abc-1'],
    ['any other message', { msg: 'stopping', signal: 'SIGTERM' }, 'INFO: stopping {"signal":"SIGTERM"}'],
  ])('shows %s on one line', (_, entry, line) => {
    expect(shown(entry)).toBe(`[00:00] ${line}\n`);
  });
});
