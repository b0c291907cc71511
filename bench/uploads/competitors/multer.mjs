// A program that receives uploads with Express and multer, as in multer's manual. With FLUSH=true each file is flushed
// to disk, but its directory isn't.
import { createServer } from 'node:http';
import express from 'express';
import multer from 'multer';
import { listen } from './listen.mjs';

const { DATA_DIR, FLUSH } = process.env;
const storage = multer.diskStorage({ destination: DATA_DIR, flush: FLUSH === 'true' });
const app = express();
app.post('/ingestHistoricalLoadData/upload_historical', multer({ storage }).single('file'), (request, response) => {
  response.json({ status: 'success', message: 'Data uploaded successfully.' });
});
listen(createServer(app));
