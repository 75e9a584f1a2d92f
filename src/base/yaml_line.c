/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/json.h"

static bool is_word(const yaml_node_t *node, const char *word, size_t len)
{
    return node && node->type == YAML_SCALAR_NODE && node->data.scalar.length == len &&
           memcmp(node->data.scalar.value, word, len) == 0;
}

/* What WORD, a key or a number, leads to; NULL: nothing. LINE becomes its line. */
static yaml_node_t *step_into(yaml_document_t *doc, const yaml_node_t *node,
                              const char *word, size_t len, unsigned *line)
{
    if (node->type == YAML_SEQUENCE_NODE) {
        const yaml_node_item_t *item =
            node->data.sequence.items.start + strtoul(word, NULL, 10);
        yaml_node_t *found = item < node->data.sequence.items.top
                                 ? yaml_document_get_node(doc, *item)
                                 : NULL;

        *line = found ? (unsigned)found->start_mark.line + 1 : *line;
        return found;
    }
    if (node->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(doc, p->key);

        if (is_word(key, word, len)) {
            *line = (unsigned)key->start_mark.line + 1;
            return yaml_document_get_node(doc, p->value);
        }
    }
    return NULL;
}

static unsigned find(yaml_document_t *doc, const char *path)
{
    const yaml_node_t *node = yaml_document_get_root_node(doc);
    unsigned line = 1;

    while (node && *path) {
        size_t len = strcspn(path, "/");

        node = step_into(doc, node, path, len, &line);
        path += len + (path[len] == '/');
    }
    return line;
}

unsigned yaml_line(const char *text, size_t len, const char *path)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    unsigned line = 1;

    if (!yaml_parser_initialize(&parser))
        return line;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (yaml_parser_load(&parser, &doc)) {
        line = find(&doc, path);
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    return line;
}
