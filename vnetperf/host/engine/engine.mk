# How an engine on DPDK is compiled. The Makefile that includes this has set NAME (its executable),
# PURE (its files that do not know DPDK) and DPDK (those that do).
#   make                 optimised for this machine, into $(OUT)/$(NAME)
#   make WERROR=1       warnings are errors
#   make SANITIZE=1      with address and undefined behaviour checks
#   make lint            clang-tidy and clang-format
CC         ?= cc
PKG_CONFIG ?= pkg-config
OUT        ?= build
ARCH       ?= native

# Files of this directory that all engines have.
COMMON      := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
COMMON_PURE := afpacket.c error.c options.c params.c thread.c turns.c values.c wallclock.c
COMMON_SRCS := $(COMMON_PURE) commands.c ethdev.c program.c
SRCS        := $(PURE) $(DPDK)
OBJS        := $(SRCS:%.c=$(OUT)/%.o) $(COMMON_SRCS:%.c=$(OUT)/%.o)
vpath %.c . $(COMMON)

# Warnings are errors in our own checks, not where a user compiles against a DPDK we have not seen.
# rte_lcore_to_cpu_id() was still experimental in DPDK 21.11.
WARN := -std=gnu11 -D_GNU_SOURCE -DALLOW_EXPERIMENTAL_API -Wall -Wextra $(if $(WERROR),-Werror) -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla
ifdef SANITIZE
OPT  := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
else
OPT  := -O3 -g -flto=auto
endif

# As system headers: DPDK's own inline functions are not held to our warnings.
DPDK_CFLAGS := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags libdpdk))
DPDK_LIBS   := $(shell $(PKG_CONFIG) --libs libdpdk)
CFLAGS_ALL  := $(WARN) $(OPT) -iquote $(COMMON) $(DPDK_CFLAGS) -march=$(ARCH) $(CFLAGS)

$(OUT)/$(NAME): $(OBJS)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDFLAGS) $(DPDK_LIBS) -lm -lpthread

$(OUT)/%.o: %.c $(wildcard *.h $(COMMON)/*.h) | $(OUT)
	$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(OUT):
	mkdir -p $@

lint:
	clang-format --style=file:$(COMMON)/.clang-format --dry-run --Werror *.[ch] $(COMMON)/*.[ch]
	clang-tidy --quiet --warnings-as-errors='*' --config-file=$(COMMON)/.clang-tidy $(SRCS) \
		$(addprefix $(COMMON)/,$(COMMON_SRCS)) -- $(WARN) -iquote $(COMMON) $(DPDK_CFLAGS)

clean:
	rm -rf $(OUT)

.PHONY: lint clean
