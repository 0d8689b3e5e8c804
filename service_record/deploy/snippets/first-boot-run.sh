# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # what stands before this sets service_record_...
# Report the step until it arrives, 30 times at most and 20 seconds apart. Then remove unit, token and this script.
service_record_units=${SERVICE_RECORD_ROOT-}/etc/systemd/system
service_record_left=29
# This waits and sends again itself.
service_record_background=0
service_record_step "$service_record_name" "done" 100
while [ "$service_record_arrived" = no ] && [ "$service_record_left" -gt 0 ]; do
  service_record_left=$((service_record_left - 1))
  sleep 20
  service_record_patience=$service_record_limit
  service_record_do again "$service_record_name" "done" 100 ""
done
service_record_end
rm -f "$service_record_units/multi-user.target.wants/service-record-first-boot.service"
rm -f "$service_record_units/service-record-first-boot.service"
rm -rf "$service_record_files"
