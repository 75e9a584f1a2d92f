/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/farewell.h"

#include <string.h>

#define MARK     "vial:over:"
#define MARK_LEN (sizeof MARK - 1)
#define DIGITS   3u

void farewell_write(char name[FAREWELL_SIZE], int code)
{
    unsigned left = (unsigned)code & 0xff;

    memcpy(name, MARK, MARK_LEN);
    for (size_t i = DIGITS; i-- > 0; left /= 10)
        name[MARK_LEN + i] = (char)('0' + left % 10);
    name[MARK_LEN + DIGITS] = 0;
}

int farewell_read(const char *text, size_t len)
{
    unsigned code = 0;

    /* A newline ends it. */
    if (len != MARK_LEN + DIGITS + 1 || memcmp(text, MARK, MARK_LEN) != 0 ||
        text[len - 1] != '\n')
        return -1;
    for (size_t i = MARK_LEN; i < MARK_LEN + DIGITS; i++) {
        unsigned digit = (unsigned)text[i] - '0';

        if (digit > 9)
            return -1;
        code = code * 10 + digit;
    }
    return code > 255 ? -1 : (int)code;
}
