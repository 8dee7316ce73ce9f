/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Probes of `forebay record`: one event when a request is issued, one when it completes. No state is kept here; the two are
 * matched, and depths counted, by the reader of the ring, where a nanosecond costs nobody's I/O. Built by ./build; the object
 * beside this file is committed. The events are read by src/capture/event.rs.
 *
 * A request (struct request, blk-mq) or, on devices without blk-mq, a bio, is told apart from others by its address, which the
 * kernel reuses only after its completion.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define DISKS_MAX 8
#define RING_BYTES (32 << 20)
#define PROCESSES_MAX 65536

/* kinds of events */
enum { ISSUE = 1, COMPLETE = 2, REQUEUE = 3, INSERT = 4 };

/* operations and flags as crates/trace/src/request.rs has them */
enum { READ, WRITE, DISCARD, WRITE_ZEROES, FLUSH, OTHER };
enum {
	META = 1 << 0,
	SYNC = 1 << 1,
	FUA = 1 << 2,
	PREFLUSH = 1 << 3,
	SWAP = 1 << 4,
	READ_AHEAD = 1 << 5,
	DIRECT = 1 << 7,
	BACKGROUND = 1 << 8,
};

struct issue_event {
	__u8 kind;
	__u8 op;
	__u16 flags;
	__u8 lifetime; /* the kernel's enum rw_hint */
	__u8 disk; /* index into disks[] */
	__u8 of_process; /* whether the issuer is one of those asked for */
	__u8 zero;
	__u64 key;
	__u64 time_ns;
	__u64 begun_ns; /* when the request was made; 0 not known */
	__u64 sector;
	__u64 inode;
	__u64 cgroup;
	__u32 bytes;
	__u32 pid;
	__u32 file_system; /* s_dev */
	__u32 generation; /* of the inode: numbers are used again */
	char comm[16];
};

struct complete_event {
	__u8 kind;
	__u8 op;
	__u8 failed;
	__u8 disk;
	__u32 bytes;
	__u64 key;
	__u64 time_ns;
};

struct requeue_event {
	__u8 kind;
	__u8 zero[2];
	__u8 disk;
	__u32 zero_too;
	__u64 key;
};

struct insert_event {
	__u8 kind;
	__u8 of_process;
	__u8 zero;
	__u8 disk;
	__u32 pid;
	__u64 key;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

/* Events that found no place in the ring, by kind. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* Processes whose requests are asked for, and their children. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES_MAX);
	__type(key, __u32);
	__type(value, __u8);
} processes SEC(".maps");

/* Set by the loader. Disks are major << 20 | minor, as in dev_t. */
const volatile __u64 disks[DISKS_MAX] = {};
const volatile __u32 disk_count = 0;
const volatile __u8 by_process = 0;
/* The hint plane of a pool asks for the issue of writes alone. */
const volatile __u8 writes_only = 0;
/* Addresses of the kernel's functions; 0 where they are not known. */
const volatile __u64 iomap_dio_end = 0;
const volatile __u64 blkdev_end = 0;
const volatile __u64 blkdev_end_async = 0;
const volatile __u64 chain_end = 0;
const volatile __u64 swap_read_end = 0;

static __always_inline int disk_index(struct gendisk *disk)
{
	__u64 number = ((__u64)(__u32)disk->major << 20) | (__u32)disk->first_minor;
	__u32 i;

#pragma unroll
	for (i = 0; i < DISKS_MAX; i++)
		if (i < disk_count && disks[i] == number)
			return i;
	return -1;
}

static __always_inline __u8 operation(__u32 flags)
{
	__u32 op = flags & 0xff;

	switch (op) {
	case 0:
		return READ;
	case 1:
		return WRITE;
	case 2:
		return FLUSH;
	case 3: /* discard */
	case 5: /* secure erase */
		return DISCARD;
	case 9:
		return WRITE_ZEROES;
	}
	if (bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND) &&
	    op == bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND))
		return WRITE;
	return OTHER;
}

#define TELL(name) \
	(bpf_core_enum_value_exists(enum req_flag_bits, __REQ_##name) && \
	 (flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 1))

static __always_inline __u16 told(__u32 flags)
{
	__u16 found = 0;

	if (TELL(META))
		found |= META;
	if (TELL(SYNC))
		found |= SYNC;
	if (TELL(FUA))
		found |= FUA;
	if (TELL(PREFLUSH))
		found |= PREFLUSH;
	if (TELL(SWAP))
		found |= SWAP;
	if (TELL(RAHEAD))
		found |= READ_AHEAD;
	if (TELL(BACKGROUND))
		found |= BACKGROUND;
	return found;
}

static __always_inline void lose(__u32 kind)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &kind);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The file whose data a bio carries. */
static __always_inline void file_of(struct issue_event *event, struct bio *bio)
{
	__u64 end_io = (__u64)bio->bi_end_io;
	void *private = bio->bi_private;
	struct inode *inode = 0;
	struct super_block *super = 0;
	unsigned long number = 0;
	__u16 mode = 0;
	__u32 device = 0;

	if (chain_end && end_io == chain_end) {
		/* The front part of a bio that was too large: its parent is the rest, which knows (block/blk-merge.c). */
		struct bio *parent = private;

		bpf_core_read(&end_io, sizeof(end_io), &parent->bi_end_io);
		bpf_core_read(&private, sizeof(private), &parent->bi_private);
	}
	if (swap_read_end && end_io == swap_read_end)
		event->flags |= SWAP;
	if (iomap_dio_end && end_io == iomap_dio_end) {
		/* O_DIRECT: the pages are the user's buffer, so their mapping says nothing of the file. */
		struct iomap_dio *dio = private;
		struct kiocb *iocb = 0;
		struct file *file = 0;

		event->flags |= DIRECT;
		bpf_core_read(&iocb, sizeof(iocb), &dio->iocb);
		bpf_core_read(&file, sizeof(file), &iocb->ki_filp);
		bpf_core_read(&inode, sizeof(inode), &file->f_inode);
	} else if ((blkdev_end && end_io == blkdev_end) || (blkdev_end_async && end_io == blkdev_end_async)) {
		event->flags |= DIRECT;
		return;
	} else {
		struct page *page = bio->bi_io_vec->bv_page;
		unsigned long head = 0, mapping = 0;
		struct address_space *space, *back = 0;

		/* Copied, not loaded: the verifier takes what lies there for a pointer of a list. */
		bpf_core_read(&head, sizeof(head), &page->compound_head);
		/* A tail page of a large folio has no mapping of its own (include/linux/page-flags.h, _compound_head). */
		if (head & 1)
			page = (struct page *)(head - 1);
		bpf_core_read(&mapping, sizeof(mapping), &page->mapping);
		if (mapping & 1 && !(event->flags & SWAP))
			event->flags |= DIRECT; /* anonymous memory of a process, and no swap */
		if (!mapping || mapping & 3)
			return;
		space = (struct address_space *)mapping;
		bpf_core_read(&inode, sizeof(inode), &space->host);
		/* A slab's page has other things where a mapping would be: believe what points back. */
		bpf_core_read(&back, sizeof(back), &inode->i_mapping);
		if (back != space)
			return;
	}
	if (!inode)
		return;
	bpf_core_read(&mode, sizeof(mode), &inode->i_mode);
	mode &= 0170000;
	if (mode != 0100000 && mode != 0040000)
		return; /* the cache of a block device: metadata, or raw access */
	bpf_core_read(&number, sizeof(number), &inode->i_ino);
	bpf_core_read(&super, sizeof(super), &inode->i_sb);
	bpf_core_read(&device, sizeof(device), &super->s_dev);
	bpf_core_read(&event->generation, sizeof(event->generation), &inode->i_generation);
	event->inode = number;
	event->file_system = device;
	if (event->lifetime)
		return;
	if (bpf_core_field_exists(inode->i_write_hint)) {
		bpf_core_read(&event->lifetime, 1, &inode->i_write_hint);
	} else {
		struct inode___before_6_9 *old = (void *)inode;

		bpf_core_read(&event->lifetime, 1, &old->i_write_hint);
	}
}

/* What request and bio have in common. */
static __always_inline void describe(struct issue_event *event, struct bio *bio, __u32 flags)
{
	__u64 id = bpf_get_current_pid_tgid() >> 32;
	__u32 pid = id;

	event->kind = ISSUE;
	event->op = operation(flags);
	event->flags = told(flags);
	event->lifetime = 0;
	event->of_process = 0;
	event->zero = 0;
	event->inode = 0;
	event->cgroup = 0;
	event->file_system = 0;
	event->generation = 0;
	event->pid = pid;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if (by_process)
		event->of_process = bpf_map_lookup_elem(&processes, &pid) != 0;
	if (!bio)
		return;
	if (bpf_core_field_exists(bio->bi_blkg))
		event->cgroup = bio->bi_blkg->blkcg->css.cgroup->kn->id;
	if (bpf_core_field_exists(bio->bi_write_hint))
		bpf_core_read(&event->lifetime, 1, &bio->bi_write_hint);
	if (event->op == READ || event->op == WRITE)
		file_of(event, bio);
}

SEC("tp_btf/block_rq_issue")
int request_issue(__u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	int disk = disk_index(request->q->disk);
	struct issue_event *event;
	struct bio *bio;
	__u32 flags;

	if (disk < 0)
		return 0;
	flags = request->cmd_flags;
	if ((flags & 0xff) >= 32)
		return 0; /* a driver's own command */
	if (writes_only && (flags & 0xff) != 1)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(ISSUE);
		return 0;
	}
	bio = request->bio;
	event->disk = disk;
	event->key = (__u64)request;
	event->time_ns = bpf_ktime_get_ns();
	event->begun_ns = request->start_time_ns;
	event->sector = request->__sector;
	event->bytes = request->__data_len;
	/* The flush machinery takes PREFLUSH, and FUA where it is emulated, away from the request (block/blk-flush.c). */
	if (bio)
		flags |= bio->bi_opf & ~0xffu;
	describe(event, bio, flags);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int request_complete(__u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	__u8 failed = (__u8)ctx[1] != 0;
	__u32 bytes = (__u32)ctx[2];
	int disk = disk_index(request->q->disk);
	struct complete_event *event;

	/* A part of it, and the rest will follow (blk_update_request). */
	if (disk < 0 || bytes < request->__data_len)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(COMPLETE);
		return 0;
	}
	event->kind = COMPLETE;
	event->op = operation(request->cmd_flags);
	event->failed = failed;
	event->disk = disk;
	event->bytes = bytes;
	event->key = (__u64)request;
	event->time_ns = bpf_ktime_get_ns();
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int request_requeue(__u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	int disk = disk_index(request->q->disk);
	struct requeue_event *event;

	if (disk < 0)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(REQUEUE);
		return 0;
	}
	event->kind = REQUEUE;
	event->zero[0] = event->zero[1] = 0;
	event->disk = disk;
	event->zero_too = 0;
	event->key = (__u64)request;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Where a request waits in a scheduler, another process may be the one that issues it: who inserts it is who made it. */
SEC("tp_btf/block_rq_insert")
int request_insert(__u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	int disk = disk_index(request->q->disk);
	struct insert_event *event;
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (disk < 0)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(INSERT);
		return 0;
	}
	event->kind = INSERT;
	event->of_process = by_process && bpf_map_lookup_elem(&processes, &pid) != 0;
	event->zero = 0;
	event->disk = disk;
	event->pid = pid;
	event->key = (__u64)request;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Devices without blk-mq (zram, dm, md, multipath heads): their bios are their requests. */
SEC("tp_btf/block_bio_queue")
int bio_queue(__u64 *ctx)
{
	struct bio *bio = (void *)ctx[0];
	int disk = disk_index(bio->bi_bdev->bd_disk);
	struct issue_event *event;
	__u32 flags;

	if (disk < 0)
		return 0;
	flags = bio->bi_opf;
	if (writes_only && (flags & 0xff) != 1)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(ISSUE);
		return 0;
	}
	event->disk = disk;
	event->key = (__u64)bio;
	event->time_ns = bpf_ktime_get_ns();
	event->begun_ns = 0;
	event->sector = bio->bi_iter.bi_sector;
	event->bytes = bio->bi_iter.bi_size;
	describe(event, bio, flags);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/block_bio_complete")
int bio_complete(__u64 *ctx)
{
	struct bio *bio = (void *)ctx[1];
	int disk = disk_index(bio->bi_bdev->bd_disk);
	struct complete_event *event;

	if (disk < 0)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(COMPLETE);
		return 0;
	}
	event->kind = COMPLETE;
	event->op = operation(bio->bi_opf);
	event->failed = 0;
	bpf_core_read(&event->failed, 1, &bio->bi_status);
	event->disk = disk;
	event->bytes = 1;
	event->key = (__u64)bio;
	event->time_ns = bpf_ktime_get_ns();
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Children of the processes that are asked for. Attached only where there are such. */
SEC("tp_btf/sched_process_fork")
int process_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	__u32 from = parent->tgid, to = child->tgid;
	__u8 one = 1;

	if (from != to && bpf_map_lookup_elem(&processes, &from))
		bpf_map_update_elem(&processes, &to, &one, BPF_ANY);
	return 0;
}
