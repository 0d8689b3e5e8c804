"""Ordinary lines of many kinds of logs, generated from a seed. They name secrets now and then and hold none."""

# ruff: noqa: E501 - a line of a log is as long as it is

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final


class _Draw(random.Random):
    def hex(self, size: int) -> str:
        return f"{self.getrandbits(4 * size):0{size}x}"

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.getrandbits(128)))

    def ip(self) -> str:
        return f"10.{self.randrange(256)}.{self.randrange(256)}.{self.randrange(1, 255)}"

    def clock(self) -> str:
        return f"{self.randrange(24):02}:{self.randrange(60):02}:{self.randrange(60):02}"

    def suffix(self, size: int = 5) -> str:
        return "".join(self.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(size))


def _hadoop(d: _Draw) -> str:
    task = f"{d.randrange(1 << 40)}_{d.randrange(99):04}_{d.choice('mr')}_{d.randrange(999):06}"
    text = d.choice(
        (
            f"[AsyncDispatcher event handler] org.apache.hadoop.mapreduce.v2.app.job.impl.TaskAttemptImpl: attempt_{task}_0 TaskAttempt Transitioned from NEW to UNASSIGNED",
            f"[AsyncDispatcher event handler] org.apache.hadoop.mapreduce.v2.app.job.impl.TaskImpl: task_{task} Task Transitioned from SCHEDULED to RUNNING",
            f"[main] org.apache.hadoop.mapreduce.v2.app.MRAppMaster: Kind: YARN_AM_RM_TOKEN, Service: , Ident: (appAttemptId {{ application_id {{ id: {d.randrange(99)} cluster_timestamp: {d.randrange(1 << 40)} }} attemptId: 1 }} keyId: {d.randrange(1 << 31)})",
            f"[RMCommunicator Allocator] org.apache.hadoop.mapreduce.v2.app.rm.RMContainerAllocator: Recalculating schedule, headroom=<memory:{d.randrange(9999)}, vCores:-{d.randrange(40)}>",
            "[main] org.apache.hadoop.mapred.YarnChild: Executing with tokens:",
            f"[IPC Server handler {d.randrange(30)} on 62270] org.apache.hadoop.mapred.TaskAttemptListenerImpl: Progress of TaskAttempt attempt_{task}_0 is : 0.{d.randrange(1 << 30)}",
            f"[ContainerLauncher #{d.randrange(9)}] org.apache.hadoop.yarn.client.api.impl.ContainerManagementProtocolProxy: Opening proxy : MSRA-SA-{d.randrange(99)}.fareast.corp.example.com:{d.randrange(1024, 65535)}",
        )
    )
    return f"2026-10-17 {d.clock()},{d.randrange(1000):03} {d.choice(('INFO', 'WARN'))} {text}"


def _hdfs(d: _Draw) -> str:
    block = f"blk_{d.choice(('', '-'))}{d.getrandbits(63)}"
    text = d.choice(
        (
            f"dfs.DataNode$PacketResponder: PacketResponder {d.randrange(3)} for block {block} terminating",
            f"dfs.DataNode$DataXceiver: Receiving block {block} src: /{d.ip()}:{d.randrange(65535)} dest: /{d.ip()}:50010",
            f"dfs.FSNamesystem: BLOCK* NameSystem.addStoredBlock: blockMap updated: {d.ip()}:50010 is added to {block} size {d.randrange(1 << 26)}",
            f"dfs.FSNamesystem: BLOCK* NameSystem.allocateBlock: /user/root/rand/_temporary/_task_200811_0002_m_{d.randrange(1999):06}_0/part-{d.randrange(1999):05}. {block}",
        )
    )
    return f"081109 {d.randrange(240000):06} {d.randrange(999)} INFO {text}"


def _apache_access(d: _Draw) -> str:
    path = d.choice(
        (
            "/",
            "/index.html",
            f"/api/v1/items/{d.uuid()}?page={d.randrange(9)}&sort=name",
            "/static/app.3f2c379a.js",
            "/login",
            "/users/password/new",
        )
    )
    return f'{d.ip()} - {d.choice(("-", "core"))} [21/Nov/2026:{d.clock()} +0000] "{d.choice(("GET", "POST"))} {path} HTTP/1.1" {d.choice((200, 302, 404))} {d.randrange(99999)} "https://www.example.com/" "Mozilla/5.0 (X11; Linux x86_64; rv:{d.randrange(60, 140)}.0) Gecko/20100101 Firefox/{d.randrange(60, 140)}.0"'


def _apache_error(d: _Draw) -> str:
    text = d.choice(
        (
            f"[notice] workerEnv.init() ok /etc/httpd/conf/workers{d.randrange(9)}.properties",
            "[error] mod_jk child workerEnv in error state 6",
            f"[error] [client {d.ip()}] Directory index forbidden by rule: /var/www/html/",
            f'[auth_basic:error] [pid {d.randrange(9999)}] [client {d.ip()}:{d.randrange(65535)}] AH01617: user admin: authentication failure for "/server-status": Password Mismatch',
            f"[ssl:warn] [pid {d.randrange(9999)}] AH01909: www.example.com:443:0 server certificate does NOT include an ID which matches the server name",
        )
    )
    return f"[Sun Dec 04 {d.clock()} 2026] {text}"


def _kubelet(d: _Draw) -> str:
    pod = f"{d.choice(('etcd-master-0', 'dns-default', 'multus'))}-{d.suffix()}"
    text = d.choice(
        (
            f'reconciler_common.go:{d.randrange(999)}] "operationExecutor.MountVolume started for volume \\"kube-api-access-{d.suffix()}\\" (UniqueName: \\"kubernetes.io/projected/{d.uuid()}-kube-api-access-{d.suffix()}\\") pod \\"{pod}\\" (UID: \\"{d.uuid()}\\") " pod="openshift-dns/{pod}"',
            f'kubelet_pods.go:{d.randrange(999)}] "Unable to retrieve pull secret, the image pull may not succeed." pod="openshift-dns/{pod}" secret="" err="secret \\"default-dockercfg-{d.suffix()}\\" not found"',
            f'kubelet.go:{d.randrange(9999)}] "SyncLoop (PLEG): event for pod" pod="openshift-etcd/{pod}" event={{"ID":"{d.uuid()}","Type":"ContainerStarted","Data":"{d.hex(64)}"}}',
            f'prober.go:{d.randrange(999)}] "Probe failed" probeType="Readiness" pod="openshift-dns/{pod}" podUID="{d.uuid()}" containerName="dns" probeResult="failure" output="Get \\"http://{d.ip()}:8181/ready\\": dial tcp {d.ip()}:8181: connect: connection refused"',
            f'secret_manager.go:{d.randrange(999)}] "watching" secret="openshift-{d.choice(("etcd", "dns"))}/{d.choice(("etcd-client", "router-certs-default"))}" token-count={d.randrange(9)}',
            f'pod_container_deletor.go:80] "Container not found in pod\'s containers" containerID="{d.hex(64)}"',
        )
    )
    return f"Nov 21 {d.clock()} master-0 kubenswrapper[2213]: {d.choice('IWE')}1121 {d.clock()}.{d.randrange(999999):06}    2213 {text}"


def _crio(d: _Draw) -> str:
    image = f"quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{d.hex(64)}"
    text = d.choice(
        (
            f'level=info msg="Pulling image: {image}" id={d.uuid()} name=/runtime.v1.ImageService/PullImage',
            f'level=info msg="Created container {d.hex(64)}: openshift-dns/dns-default-{d.suffix()}/dns" id={d.uuid()} name=/runtime.v1.RuntimeService/CreateContainer',
            f'level=warning msg="Failed to find container exit file for {d.hex(64)}: timed out waiting for the condition"',
            f'level=info msg="Got pod network &{{Name:dns-default-{d.suffix()} Namespace:openshift-dns ID:{d.hex(64)} UID:{d.uuid()} NetNS:/var/run/netns/{d.uuid()} Networks:[] RuntimeConfig:map[multus-cni-network:{{IP: MAC: PortMappings:[] Bandwidth:<nil> IpRanges:[]}}] Aliases:map[]}}"',
        )
    )
    return f'Nov 21 {d.clock()} master-0 crio[1822]: time="2026-11-21T{d.clock()}.{d.randrange(10**9):09}Z" {text}'


def _etcd(d: _Draw) -> str:
    head = f'{{"level":"{d.choice(("info", "warn"))}","ts":"2026-11-21T{d.clock()}.{d.randrange(999999):06}Z","caller":"etcdserver/{d.choice(("util", "raft", "server"))}.go:{d.randrange(999)}"'
    rest = d.choice(
        (
            f'"msg":"apply request took too long","took":"{d.randrange(999)}.{d.randrange(999)}ms","expected-duration":"200ms","prefix":"read-only range ","request":"key:\\"/kubernetes.io/secrets/openshift-{d.suffix()}/token-{d.suffix()}\\" ","response":"range_response_count:1 size:{d.randrange(9999)}"}}',
            f'"msg":"starting etcd server","local-member-id":"{d.hex(16)}","local-server-version":"3.5.{d.randrange(20)}","cluster-id":"{d.hex(16)}","auth-token":"simple"}}',
            f'"msg":"finished scheduled compaction","compact-revision":{d.randrange(99999)},"took":"{d.randrange(99)}.{d.randrange(999)}ms","hash":{d.getrandbits(32)},"current-db-size-bytes":{d.getrandbits(27)}}}',
        )
    )
    return f"{head},{rest}"


def _systemd(d: _Draw) -> str:
    text = d.choice(
        (
            "systemd[1]: Started Dispatch Password Requests to Console Directory Watch.",
            f"systemd[1]: run-r{d.hex(32)}.scope: Deactivated successfully.",
            f"systemd[1]: bootkube.service: Main process exited, code=exited, status={d.randrange(1, 255)}/n/a",
            f"systemd-logind[811]: New session {d.randrange(99)} of user core.",
            f"sshd[{d.randrange(9999)}]: Failed password for {d.choice(('root', 'admin'))} from {d.ip()} port {d.randrange(65535)} ssh2",
            f"sshd[{d.randrange(9999)}]: pam_unix(sshd:session): session opened for user core(uid=1000) by core(uid=0)",
            f"audit[{d.randrange(9999)}]: CRYPTO_KEY_USER pid={d.randrange(9999)} uid=0 auid=4294967295 ses=4294967295 msg='op=destroy kind=server fp=SHA256:{d.hex(2)}:{d.hex(2)} direction=? spid={d.randrange(9999)} suid=0'",
            f"kernel: device-mapper: crypt: secret key slot {d.randrange(8)} not used",
            f"NetworkManager[1022]: <info>  [17636{d.randrange(99999)}.{d.randrange(9999):04}] device (enp1s0): state change: need-auth -> prepare (reason 'none', sys-iface-state: 'managed')",
        )
    )
    return f"Nov 21 {d.clock()} master-0 {text}"


def _nginx(d: _Draw) -> str:
    text = d.choice(
        (
            f'connect() failed (111: Connection refused) while connecting to upstream, client: {d.ip()}, server: _, request: "GET /healthz HTTP/1.1", upstream: "http://{d.ip()}:8080/healthz", host: "app.example.com"',
            f'open() "/usr/share/nginx/html/favicon.ico" failed (2: No such file or directory), client: {d.ip()}, server: localhost, request: "GET /favicon.ico HTTP/1.1", host: "{d.ip()}"',
            f'user "admin": password mismatch, client: {d.ip()}, server: _, request: "GET /metrics HTTP/1.1", host: "app.example.com"',
        )
    )
    return f"2026/11/21 {d.clock()} [error] {d.randrange(99)}#{d.randrange(99)}: *{d.randrange(99999)} {text}"


def _postgres(d: _Draw) -> str:
    text = d.choice(
        (
            f"LOG:  checkpoint complete: wrote {d.randrange(9999)} buffers (0.{d.randrange(9)}%); 0 WAL file(s) added, 0 removed, {d.randrange(9)} recycled; write={d.randrange(99)}.{d.randrange(999)} s, sync=0.{d.randrange(999):03} s",
            'FATAL:  password authentication failed for user "app"',
            "LOG:  connection authorized: user=app database=app SSL enabled (protocol=TLSv1.3, cipher=TLS_AES_256_GCM_SHA384, bits=256)",
            'ERROR:  duplicate key value violates unique constraint "users_email_key"',
            f"DETAIL:  Key (id)=({d.uuid()}) already exists.",
            f"LOG:  duration: {d.randrange(9999)}.{d.randrange(999)} ms  execute <unnamed>: SELECT id, name, password_hash FROM users WHERE id = $1",
        )
    )
    return f"2026-11-21 {d.clock()}.{d.randrange(999):03} UTC [{d.randrange(9999)}] {text}"


def _dpkg(d: _Draw) -> str:
    package = d.choice(
        (
            "passwd:amd64 1:4.13+dfsg1-1",
            "libpam-modules:amd64 1.5.2-6",
            "libsecret-1-0:amd64 0.20.5-3",
            "gnome-keyring:amd64 42.1-1",
        )
    )
    return f"2026-11-21 {d.clock()} {d.choice((f'status installed {package}', f'upgrade {package} {package.split()[1]}', f'status half-configured {package}', f'trigproc man-db:amd64 2.11.2-{d.randrange(9)} <none>'))}"


def _ansible(d: _Draw) -> str:
    return d.choice(
        (
            f"TASK [bootstrap : Set the password of the BMC] {'*' * d.randrange(20, 60)}",
            f'ok: [master-{d.randrange(3)}] => {{"changed": false, "checksum": "{d.hex(40)}", "dest": "/etc/app.conf", "gid": 0, "md5sum": "{d.hex(32)}", "mode": "0600", "size": {d.randrange(9999)}, "state": "file", "uid": 0}}',
            f"changed: [master-{d.randrange(3)}] => (item={{'name': 'core', 'groups': 'wheel'}})",
            'fatal: [master-0]: FAILED! => {"censored": "the output has been hidden due to the fact that \'no_log: true\' was specified for this result", "changed": false}',
            f"master-{d.randrange(3)} : ok={d.randrange(99)} changed={d.randrange(9)} unreachable=0 failed=0 skipped={d.randrange(9)} rescued=0 ignored=0",
        )
    )


def _openstack(d: _Draw) -> str:
    request = f"[req-{d.uuid()} {d.hex(32)} {d.hex(32)} - - -]"
    text = d.choice(
        (
            f'nova.osapi_compute.wsgi.server {request} {d.ip()} "GET /v2/{d.hex(32)}/servers/detail HTTP/1.1" status: 200 len: {d.randrange(9999)} time: 0.{d.randrange(10**7)}',
            f"nova.compute.manager {request} [instance: {d.uuid()}] VM Started (Lifecycle Event)",
            f"nova.virt.libvirt.imagecache {request} image {d.uuid()} at (/var/lib/nova/instances/_base/{d.hex(40)}): checking",
            f"keystone.token.provider {request} Token {d.uuid()} is expired, revoking chain",
        )
    )
    return f"nova-api.log.1.2026-05-16_13:53:08 2026-05-16 {d.clock()}.{d.randrange(999):03} {d.randrange(99999)} INFO {text}"


def _zookeeper(d: _Draw) -> str:
    text = d.choice(
        (
            f"[ProcessThread:-1:PrepRequestProcessor@476] - Processed session termination for sessionid: 0x{d.hex(15)}",
            f"[NIOServerCxn.Factory:0.0.0.0/0.0.0.0:2181:NIOServerCnxn@1001] - Closed socket connection for client /{d.ip()}:{d.randrange(65535)} which had sessionid 0x{d.hex(15)}",
            f"[CommitProcessor:1:ZooKeeperServer@595] - Established session 0x{d.hex(15)} with negotiated timeout 10000 for client /{d.ip()}:{d.randrange(65535)}",
        )
    )
    return f"2026-07-29 {d.clock()},{d.randrange(999):03} - INFO  {text}"


_SOURCES: Final[Mapping[str, Callable[[_Draw], str]]] = {
    "Hadoop": _hadoop,
    "HDFS": _hdfs,
    "Apache access": _apache_access,
    "Apache error": _apache_error,
    "kubelet": _kubelet,
    "CRI-O": _crio,
    "etcd": _etcd,
    "systemd": _systemd,
    "nginx": _nginx,
    "PostgreSQL": _postgres,
    "dpkg": _dpkg,
    "Ansible": _ansible,
    "OpenStack": _openstack,
    "ZooKeeper": _zookeeper,
}
KINDS: Final = tuple(_SOURCES)


def ordinary_lines(kind: str, count: int, seed: int = 20261128) -> Iterator[str]:
    """Yield different lines of one kind of log, the same for the same seed."""
    draw = _Draw(f"{seed} {kind}")
    return (_SOURCES[kind](draw) for _ in range(count))
