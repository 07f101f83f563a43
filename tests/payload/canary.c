/* A bystander: outside every tree, does nothing, and must be alive at the end. */
#include "payload.h"

int main(int argc, char **argv) {
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("canary");
        payload_finish(&p);
}
