const ANSWER = '{"status":"success","message":"Data uploaded successfully."}';

/**
 * A handler for Node's HTTP server that collects and parses a JSON body, stores its `additional_data`, and answers.
 *
 * @param {(additionalData: string) => Promise<unknown>} store
 */
export const answerSmallJson = (store) => (request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const { additional_data } = JSON.parse(Buffer.concat(chunks));
    store(additional_data).then(
      () => {
        response.setHeader('Content-Type', 'application/json; charset=utf-8');
        response.end(ANSWER);
      },
      (error) => {
        console.error(error);
        response.writeHead(500).end();
      },
    );
  });
};
