/** Runs asynchronous jobs one at a time, in the order of the calls of `run`. */
export class OneAtATime {
  /** Resolves when all jobs so far have ended. */
  private ended: Promise<void> = Promise.resolve();

  /** Runs a job after all earlier ones have ended, whether or not they have failed. Settles as the job does. */
  run<T>(job: () => Promise<T>): Promise<T> {
    const done = this.ended.then(job);
    this.ended = done.then(() => undefined, () => undefined);
    return done;
  }
}
