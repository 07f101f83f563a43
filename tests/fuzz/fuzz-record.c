/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* record_parse() on any bytes. What it takes must be sane, and written and read again it must be the same.
 *
 * Built as it stands: replays the files of the folders that are named (meson test). With -fsanitize=fuzzer, which brings
 * its own main(): `ninja fuzz-record`, then fuzz-record CORPUS. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what) {
        if (holds)
                return;
        fprintf(stderr, "%s\n", what);
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct record record = { 0 }, again = { 0 };
        const char *problem = NULL;
        char *first, *second;
        int r = record_parse((const char *)data, size, &record, &problem);

        if (r < 0) {
                demand(r == -EBADMSG && problem, "a refusal without a reason");
                return 0;
        }
        demand(!record_check(&record), "taken, and not sane");
        demand(record.owner.pid > 1, "a pid that is nobody's");
        if (record_format(&record, &first) < 0) { /* longer than a record may be, once its text is escaped */
                record_done(&record);
                return 0;
        }
        demand(record_parse(first, strlen(first), &again, &problem) == 0, "written, and not read again");
        demand(record_format(&again, &second) == 0 && strcmp(first, second) == 0, "written twice, and not the same");
        free(first);
        free(second);
        record_done(&record);
        record_done(&again);
        return 0;
}

#ifndef FUZZER_HAS_MAIN
static int replay(const char *folder) {
        DIR *dir = opendir(folder);
        struct dirent *entry;
        int n = 0;

        if (!dir) {
                perror(folder);
                exit(EXIT_FAILURE);
        }
        while ((entry = readdir(dir))) {
                char *text;
                size_t size;

                if (entry->d_name[0] == '.')
                        continue;
                if (read_whole_file_at(dirfd(dir), entry->d_name, &text, &size) < 0) {
                        perror(entry->d_name);
                        exit(EXIT_FAILURE);
                }
                LLVMFuzzerTestOneInput((const uint8_t *)text, size);
                free(text);
                n++;
        }
        closedir(dir);
        return n;
}

int main(int argc, char *argv[]) {
        int n = 0;

        for (int i = 1; i < argc; i++)
                n += replay(argv[i]);
        printf("%d passed, 0 failed\n", n);
        return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
