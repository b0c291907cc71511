/**
 * A problem in DATA_DIR that prevents the service from starting. The message is one line with the path, the problem and
 * the remedy.
 */
export class DataDirectoryError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
