# shellcheck shell=bash
# shellcheck disable=SC2154 # what stands before this sets service_record_...
# Where the shim is, it records instead: it knows, too, where a failure came from and how the script ended.
service_record_shim=${SERVICE_RECORD_SHIM:-/usr/local/bin/bootstrap-service-record.sh}
if [ -r "$service_record_shim" ]; then
  export SERVICE_NAME=${SERVICE_NAME:-$service_record_service}
  export SERVICE_RECORDS_DIR=${SERVICE_RECORDS_DIR:-$service_record_directory}
  # shellcheck source=/dev/null
  . "$service_record_shim"
  service_record_write() {
    :
  }
  service_record_step() {
    case ${2-} in
    init) record_service_stage_start "${1-}" || : ;;
    done) record_service_stage_success || : ;;
    failed) record_service_stage_failure || : ;;
    esac
    service_record_do step "${1-}" "${2-}" "${3-}" "${4-}"
  }
fi
