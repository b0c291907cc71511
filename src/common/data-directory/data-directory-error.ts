/** A problem in DATA_DIR that an operator must fix. The message has the path, the problem and, if known, the remedy. */
export class DataDirectoryError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
