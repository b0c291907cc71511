import { once } from 'node:events';
import type { Socket } from 'node:net';
import { open, type RawAnswer, readAnswer } from './raw.js';

const BODY = 'first half, second half';
const REST = 10;

/** An upload whose body the service has begun to read. The end of the body hasn't been sent. */
export class SlowUpload {
  private constructor(
    private readonly socket: Socket,
    private readonly body: string,
  ) {}

  /** @param body more than ten bytes. All but the last ten are sent. */
  static async begin(port: number, body = BODY): Promise<SlowUpload> {
    const socket = await open(port);
    const target = '/ingestHistoricalLoadData/upload_historical?customer_id=slow&filename=slow.csv&manufacturer=m';
    socket.write(
      `POST ${target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: ${body.length}\r\n` +
        'Expect: 100-continue\r\n\r\n',
    );
    // The service sends 100 Continue when it begins to read the upload's body.
    await once(socket, 'data');
    socket.write(body.slice(0, -REST));
    return new SlowUpload(socket, body);
  }

  finish(): Promise<RawAnswer> {
    const answer = readAnswer(this.socket);
    this.socket.write(this.body.slice(-REST));
    return answer;
  }

  cutOff(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        resolve();
      };
      this.socket.once('end', done).once('error', done).once('close', done).resume();
    });
  }

  destroy(): void {
    this.socket.destroy();
  }
}
