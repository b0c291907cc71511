import { createApp, serve } from 'load-data-service/app';
import { FolderCounts } from './folder-counts.js';
import { FolderStorage } from './folder-storage.js';
import { ReportsModule } from './reports.module.js';

const folder = process.env.TEAM_FOLDER ?? 'team-uploads';

await serve(await createApp({ fileStorage: await FolderStorage.open(folder), imports: [ReportsModule.of(new FolderCounts(folder))] }));
