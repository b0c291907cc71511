import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module';
import { FolderStorage } from './folder-storage';

async function bootstrap(): Promise<void> {
  const { TEAM_FOLDER = 'team-uploads', ISSUER = 'https://login.example', PORT = '3000' } = process.env;
  const authentication = { issuer: ISSUER, audience: 'load-data-api', keySet: { url: `${ISSUER}/.well-known/jwks.json` } };
  const app = await NestFactory.create(AppModule.of(await FolderStorage.open(TEAM_FOLDER), authentication));
  await app.listen(Number(PORT), '127.0.0.1');
  console.log(`Listening on ${await app.getUrl()}`);
}
void bootstrap();
