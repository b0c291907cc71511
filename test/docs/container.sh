# Starts Azurite with an empty container, and sets the variables that the service needs, and the container's URL and a shared
# access signature for AzCopy.
mkdir -p data && rm -f data/store
node test/servers/azurite.mjs > data/store &
until grep -qs '^Ready' data/store || ! kill -0 $!; do sleep 1; done
eval "$(grep '^export' data/store)"
export FILE_STORAGE=azure
url=$(node --input-type=module -e "
  import { BlobServiceClient, ContainerSASPermissions } from '@azure/storage-blob';
  const { AZURE_STORAGE_CONNECTION_STRING: account, AZURE_STORAGE_CONTAINER: name } = process.env;
  const container = BlobServiceClient.fromConnectionString(account).getContainerClient(name);
  const permissions = ContainerSASPermissions.parse('rcwdl');
  console.log(await container.generateSasUrl({ permissions, expiresOn: new Date(Date.now() + 3_600_000) }));")
container=${url%%\?*} sas=${url#*\?}
