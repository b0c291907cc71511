import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { LOG_SERIALIZERS, PinoLoggerService } from './logging.js';

function logged(write: (logger: PinoLoggerService) => void): Record<string, unknown>[] {
  const stream = new PassThrough();
  write(new PinoLoggerService(pino({ base: null, serializers: LOG_SERIALIZERS }, stream)));
  return String(stream.read() ?? '').split('\n').filter(Boolean).map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('the log', () => {
  it('tells of an error its message, code, stack and causes, and nothing else that it carries', () => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', headers: { authorization: 'Bearer secret' } });
    const error = Object.assign(new Error('failed', { cause }), { body: 'secret', config: { token: 'secret' } });
    const [line] = logged((logger) => {
      logger.error({ msg: 'failed', err: error });
    });
    expect(line).toMatchObject({ level: 50, msg: 'failed', err: { type: 'Error', message: 'failed', cause: { message: 'refused', code: 'ECONNREFUSED' } } });
    expect(JSON.stringify(line)).not.toContain('secret');
  });

  it('tells of what is no error only its type', () => {
    const [line] = logged((logger) => {
      logger.error({ msg: 'failed', err: 'secret' });
    });
    expect(line).toMatchObject({ err: { type: 'string' } });
  });

  it.each([
    ['log', 30],
    ['warn', 40],
    ['error', 50],
    ['fatal', 60],
  ] as const)('writes %s as level %i, with its context', (method, level) => {
    expect(logged((logger) => { logger[method]('text', 'Context'); })).toMatchObject([{ level, msg: 'text', context: 'Context' }]);
  });

  it('keeps what Nest tells of its boot from those who did not ask', () => {
    expect(logged((logger) => { logger.log('Mapped {/x, GET} route', 'RouterExplorer'); })).toEqual([]);
  });
});
