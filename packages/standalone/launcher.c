/* Starts the Python that is appended to this very program, and unpacks nothing onto any disk.
 *
 * Kept beside PyInstaller's own bootloader for one promise of docs/standalone.md that it breaks: "Nothing is unpacked."
 *
 * Behind the program come libpython, as it is, and a zip file of everything else. The last 16 bytes, a comment to the zip
 * file, say where libpython begins and how long it is. It is loaded from memory (memfd_create(2)), so a host whose /tmp is
 * full, missing or mounted noexec starts it all the same. Nothing needs memory that is writable and executable.
 *
 * Python's functions are looked up in what was loaded: this program itself is linked with libc alone.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Also right when the file is removed or replaced meanwhile, as the reporter does in the end. */
#define SELF "/proc/self/exe"
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* since Linux 6.3; before, every memfd may be executed */
#endif

static void *python; /* libpython, as dlopen(3) gives it */
#define PYTHON(name) ((__typeof__(&name))dlsym(python, #name))

static int fail(const char *what, const char *why) {
  fprintf(stderr, "Error: service-record cannot start: %s: %s\n", what, why);
  return 3;
}

/* A file in memory of these bytes of FROM; negative, with errno, when there is none. */
static int in_memory(int from, off_t offset, size_t size) {
  int memory = memfd_create("libpython", MFD_CLOEXEC | MFD_EXEC);
  if (memory < 0 && errno == EINVAL)
    memory = memfd_create("libpython", MFD_CLOEXEC);
  while (memory >= 0 && size > 0) {
    ssize_t sent = sendfile(memory, from, &offset, size);
    if (sent <= 0) {
      errno = sent < 0 ? errno : EIO;
      return -1;
    }
    size -= (size_t)sent;
  }
  return memory;
}

/* _standalone.load(path): load a shared library for those that need it; returns what went wrong, or "". */
static PyObject *load(PyObject *self, PyObject *path) {
  (void)self;
  const char *name = PYTHON(PyUnicode_AsUTF8)(path);
  if (name == NULL)
    return NULL;
  return PYTHON(PyUnicode_FromString)(dlopen(name, RTLD_NOW) == NULL ? dlerror() : "");
}

static PyMethodDef methods[] = {{"load", load, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_standalone", NULL, -1, methods, NULL, NULL, NULL, NULL};

static PyObject *make_module(void) { return PYTHON(PyModule_Create2)(&module, PYTHON_API_VERSION); }

/* Python's settings: nothing from the environment or the disk; the zip file is all there is to import from. */
static PyStatus start(int argc, char **argv) {
  PyPreConfig before;
  PYTHON(PyPreConfig_InitIsolatedConfig)(&before);
  before.utf8_mode = 1; /* early in a boot no locale is set */
  before.configure_locale = 1;
  PyStatus status = PYTHON(Py_PreInitialize)(&before);
  if (PYTHON(PyStatus_Exception)(status))
    return status;

  PyConfig config;
  PYTHON(PyConfig_InitIsolatedConfig)(&config);
  config.site_import = 0;
  config.write_bytecode = 0;
  config.install_signal_handlers = 1;
  config.module_search_paths_set = 1;
  __typeof__(&PyConfig_SetString) set = PYTHON(PyConfig_SetString);
  set(&config, &config.executable, L"" SELF);
  set(&config, &config.prefix, L"/usr");
  set(&config, &config.exec_prefix, L"/usr");
  set(&config, &config.base_prefix, L"/usr");
  set(&config, &config.base_exec_prefix, L"/usr");
  set(&config, &config.run_command, L"import standalone_start");
  PYTHON(PyWideStringList_Append)(&config.module_search_paths, L"" SELF);
  PYTHON(PyConfig_SetBytesArgv)(&config, argc, argv);
  status = PYTHON(Py_InitializeFromConfig)(&config);
  PYTHON(PyConfig_Clear)(&config);
  return status;
}

int main(int argc, char **argv) {
  uint64_t place[2]; /* offset and size of libpython */
  int self = open(SELF, O_RDONLY | O_CLOEXEC);
  if (self < 0)
    return fail(SELF, strerror(errno));
  off_t end = lseek(self, -(off_t)sizeof place, SEEK_END);
  if (end < 0 || pread(self, place, sizeof place, end) != sizeof place)
    return fail(SELF, "cut short");
  int memory = in_memory(self, (off_t)place[0], place[1]);
  if (memory < 0)
    return fail("no memory for libpython", strerror(errno));
  close(self);

  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  /* Global: extension modules take Python's functions from there. The descriptor stays, so that its path names this library
   * alone: of a path that was loaded before, dlopen would give the library again that it was then. */
  python = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (python == NULL)
    return fail("libpython", dlerror());
  PYTHON(PyImport_AppendInittab)("_standalone", make_module);
  PyStatus status = start(argc, argv);
  if (PYTHON(PyStatus_Exception)(status))
    return fail("Python", status.err_msg ? status.err_msg : "no reason given");
  return PYTHON(Py_RunMain)();
}
