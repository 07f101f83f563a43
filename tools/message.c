/* SPDX-License-Identifier: MIT */
#include "message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX    "cgtree: "
#define TEXT_SIZE 4096

static int said_level = -1;

void message_set_level(enum message_level level) {
        said_level = (int)level;
}

bool message_is_said(enum message_level level) {
        const char *quiet;

        if (said_level < 0) {
                quiet = getenv("CGTREE_QUIET");
                said_level = quiet && *quiet ? MESSAGE_ERROR : MESSAGE_NOTICE;
        }
        return (int)level <= said_level;
}

/* Length of the control character at the start of text; 0 if there is none. U+0080 to U+009F are some terminals' too. */
static size_t control_length(const unsigned char *text) {
        if (text[0] < 0x20 || text[0] == 0x7f)
                return 1;
        return text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f ? 2 : 0;
}

size_t message_escape(char *buffer, size_t size, const char *text) {
        size_t length = 0;

        while (*text) {
                size_t n = control_length((const unsigned char *)text);

                if (length + (n > 0 ? n * 4 : 1) >= size)
                        break;
                if (n == 0)
                        buffer[length++] = *text++;
                for (; n > 0; n--, length += 4)
                        snprintf(buffer + length, 5, "\\x%02x", (unsigned char)*text++);
        }
        buffer[length] = '\0';
        return length;
}

static int write_all(int fd, const char *text, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, text, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                text += n;
                size -= (size_t)n;
        }
        return 0;
}

void message(enum message_level level, const char *format, ...) {
        char text[TEXT_SIZE], line[TEXT_SIZE + sizeof PREFIX + 1] = PREFIX;
        size_t length = sizeof PREFIX - 1;
        va_list arguments;

        if (!message_is_said(level))
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);

        length += message_escape(line + length, sizeof line - length - 1, text);
        line[length++] = '\n';
        /* Nobody is left to tell when this fails. */
        (void)write_all(STDERR_FILENO, line, length);
}

int message_output(const char *text, size_t size) {
        return write_all(STDOUT_FILENO, text, size);
}
