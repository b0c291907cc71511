/** Something in DATA_DIR keeps the service from starting. The message is one line: the path, what is wrong, what to do. */
export class DataDirectoryError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
