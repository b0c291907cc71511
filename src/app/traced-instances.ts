import { observeLists, observeMethods } from '../common/observer.js';
import { AssignRole } from '../identity-management/application/assign-role.use-case.js';
import { CreateRole } from '../identity-management/application/create-role.use-case.js';
import { CreateUser } from '../identity-management/application/create-user.use-case.js';
import { ListRoles } from '../identity-management/application/list-roles.use-case.js';
import { ListUsers } from '../identity-management/application/list-users.use-case.js';
import { UpdateUser } from '../identity-management/application/update-user.use-case.js';
import { FindUpload } from '../ingestion/application/find-upload.use-case.js';
import { ListUploads } from '../ingestion/application/list-uploads.use-case.js';
import { RemoveUploads } from '../ingestion/application/remove-uploads.use-case.js';
import { UploadLoadData } from '../ingestion/application/upload-load-data.use-case.js';
import { MeasuredFileStorage } from '../operations/metrics/measured-file-storage.js';
import { MeasuredIdentityProvider } from '../operations/metrics/measured-calls.js';
import { MeasuredUploadEvents } from '../operations/metrics/measured-upload-events.js';
import type { Tracing } from '../operations/tracing/tracing.js';

const USE_CASES = [UploadLoadData, FindUpload, ListUploads, CreateRole, CreateUser, UpdateUser, AssignRole] as const;
const LISTS = [ListRoles, ListUsers] as const;

/**
 * Returns a function for Nest's option `instrument`. It makes calls of use cases and adapters go through `observe` or
 * `observeAll` of `Tracing`, which can give them spans.
 */
export function tracedInstances({ observe, observeAll }: Tracing): (instance: unknown) => unknown {
  return (instance) => {
    for (const UseCase of USE_CASES) if (instance instanceof UseCase) observeMethods<{ execute: unknown }>(instance, observe, { execute: UseCase.name });
    for (const List of LISTS) if (instance instanceof List) observeLists<{ execute: unknown }>(instance, observe, { execute: List.name });
    if (instance instanceof RemoveUploads) observeMethods(instance, observe, { one: 'RemoveUploads.one', all: 'RemoveUploads.all' });
    if (instance instanceof MeasuredFileStorage) {
      observeMethods(instance, observe, { store: 'FileStorage.store' });
      const { storedUploads } = instance;
      if (storedUploads) observeMethods(storedUploads, observe, { find: 'StoredUploads.find', list: 'StoredUploads.list', openContent: 'StoredUploads.openContent', remove: 'StoredUploads.remove', removeAll: 'StoredUploads.removeAll' });
    }
    if (instance instanceof MeasuredIdentityProvider) {
      observeMethods(instance, observe, { createRole: 'IdentityProvider.createRole', createUser: 'IdentityProvider.createUser', updateUser: 'IdentityProvider.updateUser', assignRole: 'IdentityProvider.assignRole' });
      observeLists(instance, observe, { listRoles: 'IdentityProvider.listRoles', listUsers: 'IdentityProvider.listUsers' });
    }
    if (instance instanceof MeasuredUploadEvents) observeMethods(instance, observeAll, { deliver: 'UploadEvents.deliver' });
    return instance;
  };
}
