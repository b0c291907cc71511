# Starts an S3 server with an empty bucket, and sets the variables that the service and AWS's command line need.
mkdir -p data && rm -f data/store
node test/servers/versitygw.mjs > data/store &
until grep -qs '^Ready' data/store || ! kill -0 $!; do sleep 1; done
eval "$(grep '^export' data/store)"
export FILE_STORAGE=s3 AWS_ENDPOINT_URL="$S3_ENDPOINT" AWS_DEFAULT_REGION="$S3_REGION"
